// Where chunks go: making shards, growing them, and the slot of each chunk that is written.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {

bool ZarrStore::make(const Shape& shard, Shard& fresh) {
  if (!still_there())
    throw StorageError("write: the array was replaced or moved meanwhile; open it again", ESTALE, directory_);
  // Through the descriptor: another array may take the path at any moment.
  const std::string here = opened_ < 0 ? directory_ : "/proc/self/fd/" + std::to_string(opened_);
  const std::string path = here + "/" + metadata_.key(shard);
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (std::filesystem::create_directories(parent, error)) {
    for (auto up = parent; up.string().size() >= here.size(); up = up.parent_path())
      new_directories_.insert(up.string());
  }
  if (error) throw StorageError("storage: cannot create a directory", error.value(), path_of(shard));
  new_directories_.insert(parent.string());
  fresh.file_bytes =
      align_up(static_cast<std::uint64_t>(metadata_.entries()) * layout_.slot_bytes() + metadata_.index_bytes());
  fresh.entries.assign(static_cast<std::size_t>(metadata_.entries()), ShardEntry{});
  bool reserved = false;
  if (transacting_)
    make_aside(here, path, shard, fresh);
  else
    reserved = make_here(path, fresh);  // nobody else sees the array yet
  fresh.exists = fresh.indexed = true;
  return reserved;
}

bool ZarrStore::make_here(const std::string& path, Shard& fresh) {
  const auto file = File::open(path, File::Mode::create);
  struct stat status;
  if (::fstat(file->buffered(), &status) == 0) fresh.made = status.st_ino;
  bool reserved = false;
  try {
    reserved = fill_shard(*file, fresh);
  } catch (...) {
    ::unlink(path.c_str());  // a full disk: the next write makes it again
    fresh.made = 0;
    throw;
  }
  fresh.reserved = true;
  return reserved;
}

/// A length and an index of absent chunks.
bool ZarrStore::fill_shard(File& file, const Shard& fresh) const {
  bool reserved = false;
  if (metadata_.codec.raw())
    reserved = file.allocate(fresh.file_bytes);
  else
    file.truncate(fresh.file_bytes);  // packed slots are sparse: their tails never take space
  write_shard_index(file, fresh.entries, fresh.file_bytes);
  return reserved;
}

/// Under a hidden name first: a shard without an index, from a writer that died or lost its power, can be read by
/// nobody. The writer's lock makes one name enough.
void ZarrStore::make_aside(const std::string& here, const std::string& path, const Shape& shard, Shard& fresh) {
  const std::string aside = here + "/__flagstone/shard";
  ::unlink(aside.c_str());
  try {
    const auto file = File::open(aside, File::Mode::create);
    commit_step("make");
    fill_shard(*file, fresh);
    file->sync();
    struct stat status;
    if (::fstat(file->buffered(), &status) != 0 || !rename_to_new(aside, path))
      throw StorageError("storage: cannot create", errno, path_of(shard));
    fresh.made = status.st_ino;
  } catch (const StorageError& error) {
    ::unlink(aside.c_str());
    throw StorageError("write: cannot make a shard of the array", error.number, path_of(shard));
  }
}

void ZarrStore::check_layout(const Shape& shard, const Shard& loaded) const {
  if (!lie_in_slots(loaded.entries, loaded.file_bytes, layout_.slot_bytes()))
    throw FormatError("write: " + path_of(shard) +
                      ": its chunks do not lie in slots (fl.pack or another program wrote it), so it cannot be written "
                      "in place; make a copy that can, with fl.convert(path, copy), and write into that.");
}

void ZarrStore::touch(const Shape& shard, Shard& loaded) {
  check_layout(shard, loaded);
  wake(shard, loaded);
  check_sums(loaded);
  const std::size_t number = sums_.number_of(shard);
  loaded.sums_before = loaded.sums;
  if (loaded.sums.state != ShardSums::State::known) loaded.sums_before.chunks.clear();
  if (keeps_sums_) {
    if (!transacting_ && !final_) sums_.invalidate(number);
    loaded.sums.state = ShardSums::State::known;
    loaded.sums.chunks.resize(loaded.entries.size());
    ++loaded.sums.epoch;
  }
  loaded.before = loaded.entries;
  loaded.bytes_before = loaded.file_bytes;
  loaded.placed.assign(loaded.entries.size(), nowhere);
  loaded.free = unused(loaded);
  loaded.taken = {};
  struct stat status;
  loaded.inode = ::fstat(loaded.file->buffered(), &status) == 0 ? status.st_ino : 0;
  loaded.unsynced = true;
}

/// Spare slots behind the old index, which stays where it is until nobody reads it: the file gets a copy of it at its
/// new end, and holes in between. Costs nothing on the disk before they are written. In a transaction the journal
/// says meanwhile what the index of the longer file is: a file may be longer after a power failure, and what should be
/// at its end not there. Cost: five syncs, for every quarter that a shard grows.
void ZarrStore::grow(const Shape& shard, Shard& loaded) {
  const std::uint64_t slot = layout_.slot_bytes();
  const auto first =
      static_cast<std::uint32_t>(ceil_div(static_cast<Index>(loaded.file_bytes), static_cast<Index>(slot)));
  const auto more = static_cast<std::uint32_t>(std::max<std::size_t>(1, loaded.entries.size() / 4));
  const std::uint64_t bytes = align_up((std::uint64_t{first} + more) * slot + metadata_.index_bytes());
  commit_step("grow");
  if (transacting_)
    grow_journaled(shard, loaded, bytes);
  else
    write_shard_index(*loaded.file, loaded.before, bytes);
  loaded.file_bytes = bytes;
  for (std::uint32_t i = first; i < first + more; ++i) loaded.free.insert(i);
}

void ZarrStore::grow_journaled(const Shape& shard, Shard& loaded, std::uint64_t bytes) {
  Journal journal(opened_, directory_);
  ShardRecord record{shard, bytes, loaded.before, loaded.sums_before.epoch, loaded.sums_before.chunks};
  try {
    journal.commit(journal.head(), new_transaction_id(), {{".", {std::move(record)}}});
    if (keeps_sums_) sums_.growing(sums_.number_of(shard), loaded.file_bytes, bytes);
    commit_step("grow index");
    write_shard_index(*loaded.file, loaded.before, bytes);
    commit_step("grow sync");
    loaded.file->sync();
    sums_.sync();  // or a power failure would leave those of the shorter file, which count for nothing
  } catch (...) {
    try {
      loaded.file->truncate(loaded.file_bytes);
      journal.clear();
    } catch (...) {
      broken_ = true;  // the record stays, for readers and for the next writer
    }
    throw;
  }
  journal.clear();
}

/// Where a chunk goes: its own slot if that is free, else the first that is. Outside a transaction nobody else sees
/// the array yet, and what is there is overwritten.
std::uint32_t ZarrStore::place(const Shape& shard, Shard& loaded, std::size_t entry) {
  std::uint32_t& placed = loaded.placed[entry];
  if (placed != nowhere) return placed;
  const ShardEntry& old = loaded.before[entry];
  if (!transacting_ && !old.absent()) return placed = static_cast<std::uint32_t>(old.offset / layout_.slot_bytes());
  if (loaded.free.empty()) grow(shard, loaded);
  const auto own = static_cast<std::uint32_t>(entry);
  placed = loaded.free.contains(own) ? own : loaded.free.next();
  loaded.taken.insert(placed);
  loaded.free.erase(placed);
  return placed;
}

/// Takes a place for a chunk, which is under way from now on; one that is all fill value takes none.
StoredChunk ZarrStore::slot(const NewChunk& chunk) {
  if (by_chunks()) return chunk_aside(chunk);
  const Place where = place_of(chunk.chunk);
  std::lock_guard lock(mutex_);
  Shard& shard = load(where.shard);
  commit_step("slot");
  pending_[chunk.chunk] = chunk;
  if (chunk.bytes == 0 && (!shard.exists || shard.entries[where.entry].absent())) return {};  // as it was
  if (next_ && !writing_) mark_in_place(true);
  if (!shard.exists) {
    make(where.shard, shard);
    hold(where.shard, shard);
  }
  if (!shard.unsynced) touch(where.shard, shard);
  if (chunk.bytes == 0) {
    ++updates_;
    return {};
  }
  const std::uint64_t offset = place(where.shard, shard, where.entry) * layout_.slot_bytes();
  ++updates_;
  return {shard.file, offset, layout_.slot_bytes(), layout_.slot_bytes()};
}

std::uint64_t ZarrStore::updates() const {
  std::lock_guard lock(mutex_);
  return updates_;
}

/// A chunk is all fill value now: where this transaction had put it nobody needs it.
void ZarrStore::vacate(Shard& loaded, std::size_t entry) {
  loaded.entries[entry] = {};
  if (keeps_sums_) loaded.sums.chunks[entry] = {};
  if (loaded.placed[entry] != nowhere) loaded.free.insert(std::exchange(loaded.placed[entry], nowhere));
  if (transacting_ || loaded.before[entry].absent()) return;
  loaded.free.insert(static_cast<std::uint32_t>(loaded.before[entry].offset / layout_.slot_bytes()));
  loaded.before[entry] = {};
}

void ZarrStore::punch(const Shape& shard, Shard& loaded, const Slots& slots) {
  if (slots.empty()) return;
  hold(shard, loaded);
  punch_slots(*loaded.file, slots, layout_.slot_bytes());
}

/// What a transaction leaves that nobody needs: slots of chunks that were stored and are fill value by now (who still
/// reads them finds the new elements there), and those that it took for what it did not store in the end.
Slots ZarrStore::left_over(const Shard& shard) const {
  Slots slots = shard.taken;
  for (std::size_t i = 0; i < shard.before.size(); ++i)
    if (!shard.before[i].absent() && shard.entries[i].absent())
      slots.insert(static_cast<std::uint32_t>(shard.before[i].offset / layout_.slot_bytes()));
  for (const ShardEntry& entry : shard.entries)  // others were put there meanwhile
    if (!entry.absent()) slots.erase(static_cast<std::uint32_t>(entry.offset / layout_.slot_bytes()));
  return slots;
}

/// What a transaction that is given up had taken: slots, and all that a shard grew by but the index at its end. The
/// file keeps its length: a reader looks for the index at the end that it saw, and of a shorter file it would find the
/// end before its request arrives, without a commit that tells it to look again. Holes cost nothing.
Slots ZarrStore::given_up(const Shard& shard) const {
  Slots slots = shard.taken;
  if (shard.file_bytes > shard.bytes_before) {
    const auto first =
        static_cast<std::uint32_t>((shard.bytes_before - metadata_.index_bytes()) / layout_.slot_bytes());
    const Slots free = unused(shard);
    for (std::uint32_t slot = free.next(first); slot != Slots::none; slot = free.next(slot + 1)) slots.insert(slot);
  }
  return slots;
}

/// Slots of no chunk, when nothing is on its way.
Slots ZarrStore::unused(const Shard& shard) const {
  return free_slots(shard.entries, shard.file_bytes, metadata_.index_bytes(), layout_.slot_bytes());
}

/// Of a shard that still is what a transaction wrote to, whose index on the disk is `entries`: another program may have
/// put something else there.
void ZarrStore::give_back(const Shape& shard, Shard& loaded, const std::vector<ShardEntry>& entries,
                          const Slots& slots) noexcept try {
  if (slots.empty()) return;
  hold(shard, loaded);
  check_in_place(shard, loaded);
  if (read_shard_index(*loaded.file, metadata_) == entries) punch(shard, loaded, slots);
} catch (const std::exception&) {
}  // only space: the next writer of these slots, or repair

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
