// What chunks of the fill value leave free: slots, and shards that hold nothing.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {

/// A chunk is all fill value now: where this transaction had put it nobody needs it.
void ZarrStore::vacate(Shard& loaded, std::size_t entry) {
  loaded.entries[entry] = {};
  if (keeps_sums_) loaded.sums.chunks[entry] = {};
  if (loaded.placed[entry] != nowhere) loaded.free.insert(std::exchange(loaded.placed[entry], nowhere));
  if (transacting_ || loaded.before[entry].absent()) return;
  loaded.free.insert(static_cast<std::uint32_t>(loaded.before[entry].offset / layout_.slot_bytes()));
  loaded.before[entry] = {};
}

/// Gives slots back to the file system, neighbours together.
void ZarrStore::punch(const Shape& shard, Shard& loaded, const std::set<std::uint32_t>& slots) {
  const std::uint64_t slot = layout_.slot_bytes();
  for (auto at = slots.begin(); at != slots.end();) {
    const std::uint32_t first = *at;
    std::uint32_t end = first;
    while (at != slots.end() && *at == end) ++at, ++end;
    hold(shard, loaded);
    const std::uint64_t begin = first * slot;
    const std::uint64_t bytes = std::min(end * slot, align_down(loaded.file_bytes - metadata_.index_bytes())) - begin;
    ::fallocate(loaded.file->buffered(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(bytes));
  }
}

/// Slots of chunks that were stored and are fill value by now: who still reads them finds the new elements there.
std::set<std::uint32_t> ZarrStore::left_by_fill(const Shard& shard) const {
  std::set<std::uint32_t> slots;
  for (std::size_t i = 0; i < shard.before.size(); ++i)
    if (!shard.before[i].absent() && shard.entries[i].absent())
      slots.insert(static_cast<std::uint32_t>(shard.before[i].offset / layout_.slot_bytes()));
  for (const ShardEntry& entry : shard.entries)  // others were put there meanwhile
    if (!entry.absent()) slots.erase(static_cast<std::uint32_t>(entry.offset / layout_.slot_bytes()));
  return slots;
}

/// Slots of no chunk, when nothing is on its way.
std::set<std::uint32_t> ZarrStore::unused(const Shard& shard) const {
  const std::uint64_t slot = layout_.slot_bytes();
  const auto slots = static_cast<std::uint32_t>((shard.file_bytes - metadata_.index_bytes()) / slot);
  std::set<std::uint32_t> found;
  for (std::uint32_t i = 0; i < slots; ++i) found.insert(found.end(), i);
  for (const ShardEntry& entry : shard.entries)
    if (!entry.absent()) found.erase(static_cast<std::uint32_t>(entry.offset / slot));
  return found;
}

/// A shard that was made and holds nothing needs no file.
bool ZarrStore::drop_empty(const Shape& shard, Shard& made) {
  const auto absent = [](const ShardEntry& entry) { return entry.absent(); };
  const auto under_way = [](std::uint32_t slot) { return slot != nowhere; };
  if (made.made == 0 || options_.in_place) return false;
  if (!std::all_of(made.entries.begin(), made.entries.end(), absent)) return false;
  if (std::any_of(made.placed.begin(), made.placed.end(), under_way)) return false;
  unmake(shard, made.made);
  std::erase(open_, shard);
  made = {};
  made.indexed = true;
  return true;
}

}  // namespace flagstone
