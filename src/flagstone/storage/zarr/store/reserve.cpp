#include <unistd.h>
// The space of a new array, taken before anything is computed: its shards, made empty.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/space.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {

std::vector<Shape> ZarrStore::shards_of_shape() const {
  return ChunkLayout(metadata_.shape, metadata_.shards, metadata_.dtype).touched(whole(metadata_.shape));
}

/// Shards themselves rather than a file that stands for them: nobody can come between giving space up and taking it.
/// Looked at first, because a file system is full for everybody until a reservation that fails has been taken back.
bool ZarrStore::reserve() {
  if (!options_.writable || !metadata_.sharded || !metadata_.codec.raw()) return true;
  std::lock_guard lock(mutex_);
  if (transacting_) return true;  // others see the array: its shards appear when they are written
  std::vector<Shape> missing;
  for (const Shape& shard : shards_of_shape())
    if (!load(shard).exists) missing.push_back(shard);
  const std::uint64_t each =
      align_up(static_cast<std::uint64_t>(metadata_.entries()) * layout_.slot_bytes() + metadata_.index_bytes());
  const std::uint64_t needed = each * missing.size(), free = free_bytes(directory_);
  if (needed > free)
    throw StorageError("output: needs " + format_bytes(needed) + ", and " + format_bytes(free) +
                           " are free; free some space or write elsewhere",
                       ENOSPC, directory_);
  bool reserved = true;
  try {
    for (const Shape& shard : missing) {
      Shard fresh;
      reserved = make(shard, fresh) && reserved;
      idle_[shard] = fresh.made;
      shards_.erase(shard);  // read from its file when it is needed: there may be many
    }
  } catch (const StorageError& error) {
    drop_idle();
    if (error.number != ENOSPC && error.number != EDQUOT) throw;  // of a file's length (EFBIG) or the disk itself
    throw StorageError("output: needs " + format_bytes(needed) +
                           ", and others took space meanwhile, or a quota is used up (" +
                           format_bytes(free_bytes(directory_)) + " are free); free some space or write elsewhere",
                       error.number, directory_);
  }
  return reserved;
}

/// Whether a shard that a dead writer left holds nothing: it goes, then, unless it is written to.
bool ZarrStore::set_idle(const Shape& shard, const Shard& loaded) {
  const auto absent = [](const ShardEntry& entry) { return entry.absent(); };
  struct stat status;
  if (!loaded.exists || !metadata_.codec.raw() || !std::all_of(loaded.entries.begin(), loaded.entries.end(), absent) ||
      ::fstat(loaded.file->buffered(), &status) != 0)
    return false;
  idle_[shard] = status.st_ino;
  std::erase(open_, shard);
  shards_.erase(shard);
  return true;
}

/// Before the first write to a shard. What its checksums were nobody knows, or there were none.
void ZarrStore::wake(const Shape& shard, Shard& loaded) {
  const auto idle = idle_.extract(shard);
  if (idle.empty()) return;
  loaded.made = idle.mapped();
  loaded.reserved = true;
  loaded.sums = {};
}

/// Gives back what was reserved for shards that stayed all fill value.
void ZarrStore::drop_idle() {
  for (const auto& [shard, inode] : idle_) {
    unmake(shard, inode);
    std::erase(open_, shard);
    shards_.erase(shard);
  }
  idle_.clear();
}

void ZarrStore::checkpoint() {
  flush(false);
  final_ = true;
}

/// Where a killed writer had begun to overwrite an index or its checksums, the chunks of that shard count as never
/// written.
void ZarrStore::adopt() {
  final_ = true;
  for (const Shape& shard : shards_of_shape()) {
    std::lock_guard lock(mutex_);
    bool damaged = false;
    try {
      Shard& loaded = load(shard);
      if (set_idle(shard, loaded)) {
        if (keeps_sums_) sums_.invalidate(sums_.number_of(shard));
        continue;
      }
      loaded.reserved = loaded.exists;
      damaged = loaded.exists && keeps_sums_ && loaded.sums.state != ShardSums::State::known;
    } catch (const FormatError&) {
      damaged = true;
    }
    if (!damaged) continue;
    std::erase(open_, shard);
    shards_.erase(shard);
    if (keeps_sums_) sums_.invalidate(sums_.number_of(shard));
    ::unlink(path_of(shard).c_str());
  }
}

bool ZarrStore::stored(const Box& box) const {
  const auto chunks = layout_.touched(box);
  return std::all_of(chunks.begin(), chunks.end(), [this](const Shape& chunk) {
    const StoredChunk found = locate(chunk);
    return found.file != nullptr;
  });
}

}  // namespace flagstone
