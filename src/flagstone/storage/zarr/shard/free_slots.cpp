#include "flagstone/storage/zarr/shard/free_slots.hpp"

#include <fcntl.h>

#include <limits>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone {

bool lie_in_slots(const std::vector<ShardEntry>& entries, std::uint64_t file_bytes, std::uint64_t slot_bytes) {
  if (file_bytes % page_bytes != 0 || file_bytes / slot_bytes >= std::numeric_limits<std::uint32_t>::max())
    return false;
  std::set<std::uint64_t> taken;
  for (const ShardEntry& entry : entries)
    if (!entry.absent() &&
        (entry.offset % slot_bytes != 0 || entry.bytes > slot_bytes || !taken.insert(entry.offset).second))
      return false;
  return true;
}

Slots free_slots(const std::vector<ShardEntry>& entries, std::uint64_t file_bytes, std::uint64_t index_bytes,
                 std::uint64_t slot_bytes) {
  const auto slots = static_cast<std::uint32_t>((file_bytes - index_bytes) / slot_bytes);
  Slots found;
  for (std::uint32_t i = 0; i < slots; ++i) found.insert(found.end(), i);
  for (const ShardEntry& entry : entries)
    if (!entry.absent()) found.erase(static_cast<std::uint32_t>(entry.offset / slot_bytes));
  return found;
}

void punch_slots(const File& file, const Slots& slots, std::uint64_t slot_bytes) {
  for (auto at = slots.begin(); at != slots.end();) {
    const std::uint32_t first = *at;
    std::uint32_t end = first;
    while (at != slots.end() && *at == end) ++at, ++end;
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
