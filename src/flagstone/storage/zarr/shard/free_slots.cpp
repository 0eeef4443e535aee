#include "flagstone/storage/zarr/shard/free_slots.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

std::uint64_t bit_of(std::uint32_t slot) { return std::uint64_t{1} << slot % 64; }

}  // namespace

bool Slots::contains(std::uint32_t slot) const {
  return slot / 64 < words_.size() && (words_[slot / 64] & bit_of(slot)) != 0;
}

void Slots::insert(std::uint32_t slot) {
  if (contains(slot)) return;
  if (slot / 64 >= words_.size()) words_.resize(slot / 64 + 1);
  words_[slot / 64] |= bit_of(slot);
  ++number_;
}

void Slots::erase(std::uint32_t slot) {
  if (!contains(slot)) return;
  words_[slot / 64] &= ~bit_of(slot);
  --number_;
}

std::uint32_t Slots::next(std::uint32_t from) const {
  for (std::size_t word = from / 64; word < words_.size(); ++word) {
    const std::uint64_t left = words_[word] & (word == from / 64 ? ~(bit_of(from) - 1) : ~std::uint64_t{0});
    if (left != 0) return static_cast<std::uint32_t>(word * 64) + static_cast<std::uint32_t>(std::countr_zero(left));
  }
  return none;
}

bool lie_in_slots(const std::vector<ShardEntry>& entries, std::uint64_t file_bytes, std::uint64_t slot_bytes) {
  if (file_bytes % page_bytes != 0 || file_bytes / slot_bytes >= std::numeric_limits<std::uint32_t>::max())
    return false;
  Slots taken;
  for (const ShardEntry& entry : entries) {
    if (entry.absent()) continue;
    if (entry.offset % slot_bytes != 0 || entry.bytes > slot_bytes || entry.offset >= file_bytes) return false;
    const auto slot = static_cast<std::uint32_t>(entry.offset / slot_bytes);
    if (taken.contains(slot)) return false;
    taken.insert(slot);
  }
  return true;
}

Slots free_slots(const std::vector<ShardEntry>& entries, std::uint64_t file_bytes, std::uint64_t index_bytes,
                 std::uint64_t slot_bytes) {
  const auto slots = static_cast<std::uint32_t>((file_bytes - index_bytes) / slot_bytes);
  Slots found;
  for (std::uint32_t i = 0; i < slots; ++i) found.insert(i);
  for (const ShardEntry& entry : entries)
    if (!entry.absent()) found.erase(static_cast<std::uint32_t>(entry.offset / slot_bytes));
  return found;
}

void punch_slots(const File& file, const Slots& slots, std::uint64_t slot_bytes) {
  std::uint32_t end = 0;
  for (std::uint32_t first = slots.next(); first != Slots::none; first = slots.next(end)) {
    for (end = first; slots.contains(end);) ++end;
    ::fallocate(file.buffered(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first * slot_bytes),
                static_cast<off_t>((end - first) * slot_bytes));
  }
}

void punch_free_slots(const File& file, const ArrayMetadata& metadata, std::uint64_t slot_bytes) {
  const std::uint64_t bytes = file.size();
  if (bytes < metadata.index_bytes() || !metadata.foreign_levels.empty()) return;
  std::vector<ShardEntry> entries;
  try {
    entries = read_shard_index(file, metadata);
  } catch (const FormatError&) {
    return;
  }
  if (lie_in_slots(entries, bytes, slot_bytes))
    punch_slots(file, free_slots(entries, bytes, metadata.index_bytes(), slot_bytes), slot_bytes);
}

}  // namespace flagstone
