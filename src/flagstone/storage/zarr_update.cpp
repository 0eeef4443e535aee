// Writing into shards: which slot a chunk goes to, and what a transaction changes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/crc32c.hpp"
#include "flagstone/storage/zarr_store.hpp"

namespace flagstone {

// ---- what others committed ----------------------------------------------------------------------------------------

/// The head of this array's journal, and of the one that it points to.
std::vector<JournalHead> ZarrStore::heads() const {
  std::vector<JournalHead> found{Journal(opened_, directory_).head()};
  if (found[0].state != JournalHead::State::pointer) return found;
  const std::string body = Journal(opened_, directory_).body(found[0]);
  const int other = body.empty() ? -1 : ::openat(opened_, body.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (other < 0) return found;
  found.push_back(Journal(other, directory_).head());
  ::close(other);
  return found;
}

void ZarrStore::throw_changed() const {
  throw StorageError("read: the array was changed while it was read; read it again", EAGAIN, directory_);
}

void ZarrStore::look_again() const {
  if (!metadata_.sharded) {
    looked_ = true;
    return;
  }
  for (auto& [name, shard] : shards_)
    if (!shard.unsynced) shard.indexed = shard.exists = false;
  seen_ = heads();
  if (seen_[0].state == JournalHead::State::writing && !next_)
    throw StorageError(
        "read: this array is the next one of a ring of epochs and is being overwritten, or its writer died; read the "
        "current one (fl.epochs)",
        EAGAIN, directory_);
  overlay_.reset();
  overlay_part_ = nullptr;
  if (seen_[0].state != JournalHead::State::idle && still_there()) overlay_ = committed(directory_);
  if (overlay_) overlay_part_ = part_for(*overlay_, directory_);
  looked_ = true;
}

std::uint64_t ZarrStore::look() {
  if (!metadata_.sharded) return 0;
  std::lock_guard lock(mutex_);
  if (transacting_) return 0;
  std::vector<JournalHead> now = heads();
  if (!looked_ || !(now == seen_)) look_again();
  std::uint64_t moment = 1;
  // Without the heads' own checksums: a sum over data and their sum is the same for all data.
  for (const JournalHead& head : seen_) moment = 31 * moment + crc32c(&head, sizeof head - sizeof head.crc);
  return moment;
}

/// The indexes of one handle are of one moment.
void ZarrStore::check_unchanged() const {
  if (transacting_ || !metadata_.sharded || heads() == seen_) return;
  const bool fresh =
      std::none_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard.second.indexed; });
  if (!fresh) throw_changed();
  look_again();
}

const ShardRecord* ZarrStore::overlaid(const Shape& shard, std::uint64_t file_bytes) const {
  if (!overlay_part_) return nullptr;
  for (const ShardRecord& record : overlay_part_->shards)
    if (record.shard == shard && record.file_bytes == file_bytes &&
        record.entries.size() == static_cast<std::size_t>(metadata_.entries()))
      return &record;
  return nullptr;
}

// ---- slots --------------------------------------------------------------------------------------------------------

void ZarrStore::make(const Shape& shard, Shard& fresh) {
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
  if (transacting_)
    make_aside(here, path, shard, fresh);
  else
    fill_shard(*File::open(path, File::Mode::create), fresh);  // nobody else sees the array yet
  fresh.exists = fresh.indexed = true;
}

/// A length and an index of absent chunks.
void ZarrStore::fill_shard(File& file, const Shard& fresh) const {
  if (metadata_.codec.raw())
    file.allocate(fresh.file_bytes);
  else
    file.truncate(fresh.file_bytes);  // packed slots are sparse: their tails never take space
  write_shard_index(file, fresh.entries, fresh.file_bytes);
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
  const std::uint64_t slot = layout_.slot_bytes();
  bool ours = loaded.file_bytes % page_bytes == 0 && loaded.file_bytes / slot < nowhere;
  std::set<std::uint64_t> taken;
  for (std::size_t i = 0; ours && i < loaded.entries.size(); ++i) {
    const ShardEntry& entry = loaded.entries[i];
    ours = entry.absent() || (entry.offset % slot == 0 && entry.bytes <= slot && taken.insert(entry.offset).second);
  }
  if (!ours)
    throw FormatError("write: " + path_of(shard) +
                      ": another program laid this shard out; copy the array (fl.from_numpy, fl.matmul with out=) "
                      "instead of writing into it.");
}

void ZarrStore::touch(const Shape& shard, Shard& loaded) {
  check_layout(shard, loaded);
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
  const std::uint64_t slot = layout_.slot_bytes();
  loaded.before = loaded.entries;
  loaded.placed.assign(loaded.entries.size(), nowhere);
  loaded.free.clear();
  const auto slots = static_cast<std::uint32_t>((loaded.file_bytes - metadata_.index_bytes()) / slot);
  for (std::uint32_t i = 0; i < slots; ++i) loaded.free.insert(loaded.free.end(), i);
  for (const ShardEntry& entry : loaded.entries)
    if (!entry.absent()) loaded.free.erase(static_cast<std::uint32_t>(entry.offset / slot));
  loaded.unsynced = true;
}

/// Spare slots behind the old index, which stays where it is until nobody reads it: the file gets a copy of it at its
/// new end, and holes in between. Costs nothing on the disk before they are written. In a transaction the journal
/// says meanwhile what the index of the longer file is: a file may be longer after a power failure, and what should be
/// at its end not there. Cost: four syncs, for every quarter that a shard grows.
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
  for (std::uint32_t i = first; i < first + more; ++i) loaded.free.insert(loaded.free.end(), i);
}

void ZarrStore::grow_journaled(const Shape& shard, Shard& loaded, std::uint64_t bytes) {
  Journal journal(opened_, directory_);
  ShardRecord record{shard, bytes, loaded.before, loaded.sums_before.epoch, loaded.sums_before.chunks};
  try {
    journal.commit(journal.head(), new_transaction_id(), {{".", {std::move(record)}}});
    if (keeps_sums_) sums_.growing(sums_.number_of(shard), bytes);
    commit_step("grow index");
    write_shard_index(*loaded.file, loaded.before, bytes);
    commit_step("grow sync");
    loaded.file->sync();
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
  const auto own = loaded.free.find(static_cast<std::uint32_t>(entry));
  const auto at = own != loaded.free.end() ? own : loaded.free.begin();
  placed = *at;
  loaded.free.erase(at);
  return placed;
}

StoredChunk ZarrStore::slot(const Shape& chunk) {
  const Place where = place_of(chunk);
  std::lock_guard lock(mutex_);
  Shard& shard = load(where.shard);
  commit_step("slot");
  if (next_ && !writing_) {
    Journal(opened_, directory_).mark(JournalHead::State::writing, false);
    seen_ = heads();
    writing_ = true;
  }
  if (!shard.exists) {
    make(where.shard, shard);
    hold(where.shard, shard);
  }
  if (!shard.unsynced) touch(where.shard, shard);
  const std::uint64_t offset = place(where.shard, shard, where.entry) * layout_.slot_bytes();
  return {shard.file, offset, layout_.slot_bytes(), layout_.slot_bytes()};
}

void ZarrStore::write_in_place(bool next) {
  std::lock_guard lock(mutex_);
  next_ = next;
  writing_ = next && Journal(opened_, directory_).head().state == JournalHead::State::writing;
  if (!writing_) return;
  shards_.clear();
  open_.clear();
  std::error_code error;
  std::filesystem::remove_all("/proc/self/fd/" + std::to_string(opened_) + "/c", error);
  if (error) throw StorageError("epochs: cannot remove what a dead writer left", error.value(), directory_ + "/c");
  looked_ = false;
}

void ZarrStore::end_in_place() {
  std::lock_guard lock(mutex_);
  next_ = writing_ = looked_ = false;
}

void ZarrStore::refuse_unless_writable() const {
  if (options_.in_place && !next_)
    throw StorageError("write: this array holds a committed epoch; write the next one", EROFS, directory_);
  if (!options_.writable)
    throw StorageError("write: the array is open for reading only; open it with mode r+", EROFS, directory_);
}

Transfer ZarrStore::write(const Box& box) {
  refuse_unless_writable();
  return layout_.write(box, [this](const Shape& chunk) { return slot(chunk); });
}

Transfer ZarrStore::planned_write(const Box& box) {
  refuse_unless_writable();
  const std::uint64_t slot = layout_.slot_bytes();
  return layout_.write(box, [slot](const Shape&) { return StoredChunk{nullptr, 0, slot, slot}; });
}

void ZarrStore::written(const Box& box) {
  commit_step("written");
  std::lock_guard lock(mutex_);
  const std::uint64_t slot = layout_.slot_bytes();
  for (const Shape& chunk : layout_.touched(box)) {
    const Place where = place_of(chunk);
    const auto held = shards_.find(where.shard);
    if (held == shards_.end() || !held->second.unsynced)
      throw Error("storage: the transaction of " + directory_ + " ended while it was written to; write it again.");
    Shard& shard = held->second;
    const std::uint64_t offset = place(where.shard, shard, where.entry) * slot;
    Pending pending{layout_.chunk_bytes, 0};
    if (layout_.encode || layout_.summed) {
      const auto at = pending_.find(chunk);
      if (at == pending_.end()) throw Error("storage: a chunk of " + directory_ + " was written without being packed.");
      pending = at->second;
      pending_.erase(at);
    }
    shard.entries[where.entry] = {offset, pending.bytes};
    if (keeps_sums_) shard.sums.chunks[where.entry] = {pending.crc, shard.sums.epoch};
    // The tail of a packed chunk's slot goes back to the file system.
    const std::uint64_t used = align_up(shard.entries[where.entry].bytes);
    if (used == slot || !layout_.encode) continue;
    hold(where.shard, shard);
    // Where holes are not supported the tail only costs space.
    ::fallocate(shard.file->buffered(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset + used),
                static_cast<off_t>(slot - used));
  }
}

void ZarrStore::flush() {
  std::lock_guard lock(mutex_);
  if (transacting_) return;  // that is the transaction's
  for (auto& [name, shard] : shards_) {
    if (!shard.unsynced) continue;
    hold(name, shard);
    shard.file->sync();  // the chunks first: an index never names what is not on disk
    write_shard_index(*shard.file, shard.entries, shard.file_bytes);
    shard.file->sync();
    shard.unsynced = false;
    if (!keeps_sums_) continue;
    shard.sums.stamp = stamp_of(*shard.file, crc_of(shard.entries));
    sums_.save(sums_.number_of(name), shard.sums);
  }
  sums_.sync();
  for (const std::string& path : new_directories_) sync_directory(path);
  new_directories_.clear();
  if (!writing_) return;
  Journal(opened_, directory_).mark(JournalHead::State::idle, true);
  seen_ = heads();
  writing_ = false;
}

// ---- a transaction ------------------------------------------------------------------------------------------------

void ZarrStore::begin() {
  if (!options_.writable)
    throw StorageError("write: the array is open for reading only; open it with mode r+", EROFS, directory_);
  if (!still_there())
    throw StorageError("write: the array was replaced or moved meanwhile; open it again", ESTALE, directory_);
  flush();  // of an array that was built by this handle
  std::lock_guard lock(mutex_);
  look_again();
  for (auto& [name, shard] : shards_) shard.file.reset();  // another program may have put other files there
  open_.clear();
  transacting_ = true;
  broken_ = false;
}

ArrayRecord ZarrStore::prepare() {
  std::lock_guard lock(mutex_);
  if (!still_there())
    throw StorageError("commit: the array was replaced or moved meanwhile; open it again", ESTALE, directory_);
  if (broken_)
    throw StorageError("commit: a shard could not be made longer, nor taken back; start the transaction again", EIO,
                       directory_);
  ArrayRecord record;
  for (auto& [name, shard] : shards_) {
    if (!shard.unsynced) continue;
    hold(name, shard);
    commit_step("data sync");
    shard.file->sync();
    record.shards.push_back({name, shard.file_bytes, shard.entries, shard.sums.epoch, {}});
    if (keeps_sums_) record.shards.back().sums = shard.sums.chunks;
  }
  for (const std::string& path : new_directories_) sync_directory(path);
  new_directories_.clear();
  return record;
}

/// A shard that a transaction made never held a chunk; one that took its place since is somebody else's.
void ZarrStore::unmake(const Shape& shard, std::uint64_t inode) const {
  const std::string key = metadata_.key(shard);
  struct stat status;
  if (::fstatat(opened_, key.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_ino == inode)
    ::unlinkat(opened_, key.c_str(), 0);
}

void ZarrStore::end(bool committed) {
  std::lock_guard lock(mutex_);
  for (auto at = shards_.begin(); at != shards_.end();) {
    Shard& shard = at->second;
    if (!shard.unsynced && shard.made == 0) {
      ++at;
      continue;
    }
    if (!committed && shard.made != 0) unmake(at->first, shard.made);
    std::erase(open_, at->first);
    at = shards_.erase(at);
  }
  pending_.clear();
  transacting_ = false;
  looked_ = false;
}

}  // namespace flagstone
