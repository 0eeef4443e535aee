// Writing into shards: what others committed, flushing, and what a transaction changes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/chunk/chunk_write.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {

// ---- what others committed ----------------------------------------------------------------------------------------

/// The head of this array's journal, and of the one that it points to.
std::vector<JournalHead> ZarrStore::heads() const {
  std::vector<JournalHead> found{Journal(opened_, directory_).head()};
  if (found[0].state != JournalHead::State::pointer) return found;
  const std::string body = Journal(opened_, directory_).body(found[0]);
  const Descriptor other(body.empty() ? -1 : ::openat(opened_, body.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (other >= 0) found.push_back(Journal(other, directory_).head());
  return found;
}

void ZarrStore::throw_changed() const {
  throw StorageError("read: the array was changed while it was read; read it again", EAGAIN, directory_);
}

/// Another handle may have resized the array: who writes would write a chunk at the edge as it was, who reads may look
/// for what was cut off.
void ZarrStore::check_shape() const {
  if (opened_ < 0 || metadata_.version != 3) return;
  Shape now;
  try {
    const std::string file = "/proc/self/fd/" + std::to_string(opened_) + "/zarr.json";
    now = parse_array_metadata(read_text(file), directory_ + "/zarr.json").shape;
  } catch (const Error&) {
    if (sums_.replaced())
      throw StorageError("array: it was resized and then replaced or removed meanwhile; open it again", ESTALE,
                         directory_);
    return;  // who has it open keeps what is held
  }
  bool stale = now.size() == metadata_.shape.size() && options_.writable && now != metadata_.shape;
  for (std::size_t d = 0; d < metadata_.shape.size() && now.size() == metadata_.shape.size(); ++d)
    stale = stale || now[d] < metadata_.shape[d];
  if (stale)
    throw StorageError("array: it was resized meanwhile, from " + to_string(metadata_.shape) + " to " + to_string(now) +
                           "; open it again",
                       ESTALE, directory_);
}

/// What zarr.json is now: a resize whose process died after its commit has told nobody of it.
ZarrStore::MetadataFile ZarrStore::metadata_file() const {
  struct stat status;
  if (opened_ < 0 || ::fstatat(opened_, "zarr.json", &status, 0) != 0) return {};
  return {static_cast<std::int64_t>(status.st_ino), status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

void ZarrStore::look_again() const {
  if (!metadata_.sharded) {
    looked_ = true;
    return;
  }
  const MetadataFile metadata = metadata_file();
  check_shape();
  metadata_seen_ = metadata;
  const bool here = still_there();
  for (auto& [name, shard] : shards_) {
    if (shard.unsynced) continue;
    shard.indexed = shard.exists = false;
    if (!here || !shard.file || !shard.file->removed()) continue;
    shard.file.reset();  // a resize cut all of it off: what is there now may be new
    std::erase(open_, name);
  }
  looked_ = false;  // where it is refused the next read asks again
  seen_ = heads();
  check_epoch();
  overlay_.reset();
  overlay_part_ = nullptr;
  if (seen_[0].state != JournalHead::State::idle && still_there()) overlay_ = committed(directory_);
  if (overlay_) overlay_part_ = part_for(*overlay_, directory_);
  looked_ = true;
}

/// An array that was never committed to has no journal, and none after it was removed with its directory: what was
/// committed between is in the indexes of the files that are held. Looked at once, when it has gone.
bool ZarrStore::changed_before_it_went() const {
  if (went_ || seen_[0].state != JournalHead::State::idle || seen_[0].commits != 0 || still_there()) return false;
  went_ = true;
  if (sums_.replaced()) return true;
  return std::any_of(shards_.begin(), shards_.end(), [&](const auto& one) {
    const Shard& shard = one.second;
    if (!shard.indexed) return false;
    if (!shard.exists) return !sums_.never_stored(sums_.number_of(one.first));
    return !shard.file || read_shard_index(*shard.file, metadata_) != shard.entries;
  });
}

std::uint64_t ZarrStore::look() {
  if (!metadata_.sharded) return 0;
  std::lock_guard lock(mutex_);
  if (transacting_) return 0;
  std::vector<JournalHead> now = heads();
  if (!looked_ || !(now == seen_) || metadata_file() != metadata_seen_) {
    look_again();
  } else if (changed_before_it_went()) {
    ++unseen_;
    look_again();
  }
  std::uint64_t moment = 1 + unseen_;
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

// ---- writing ------------------------------------------------------------------------------------------------------

void ZarrStore::refuse_unless_writable() const {
  if (options_.in_place && !next_)
    throw StorageError("write: this array holds a committed epoch; write the next one", EROFS, directory_);
  if (!options_.writable)
    throw StorageError("write: the array is open for reading only; open it with mode r+", EROFS, directory_);
}

Transfer ZarrStore::write(const Box& box) {
  refuse_unless_writable();
  return write_chunks(layout_, box, [this](const NewChunk& chunk) { return slot(chunk); });
}

Transfer ZarrStore::write_joined(const Box& box, const Tile& from) {
  refuse_unless_writable();
  return write_joined_chunks(layout_, box, from, [this](const NewChunk& chunk) { return slot(chunk); });
}

Transfer ZarrStore::planned_write(const Box& box) {
  refuse_unless_writable();
  return write_chunks(layout_, box);
}

std::size_t ZarrStore::write_staging(const Box& box) {
  refuse_unless_writable();
  return staging_of_write(layout_, box);
}

void ZarrStore::written(const Box& box) {
  commit_step("written");
  if (by_chunks()) return put_chunks(box);
  std::lock_guard lock(mutex_);
  const std::uint64_t slot = layout_.slot_bytes();
  for (const Shape& chunk : layout_.touched(box)) {
    const auto pending = pending_.extract(chunk);
    const Place where = place_of(chunk);
    const auto held = shards_.find(where.shard);
    const bool writing = held != shards_.end() && held->second.unsynced;
    const bool stays_absent =
        !pending.empty() && pending.mapped().bytes == 0 &&
        (held == shards_.end() || !held->second.exists || held->second.entries[where.entry].absent());
    if (stays_absent && (!writing || held->second.placed[where.entry] == nowhere)) continue;
    if (pending.empty() || !writing)
      throw Error("storage: the transaction of " + directory_ + " ended while it was written to; write it again.");
    Shard& shard = held->second;
    const NewChunk& fresh = pending.mapped();
    if (fresh.bytes == 0) {
      vacate(shard, where.entry);
      continue;
    }
    const std::uint64_t offset = place(where.shard, shard, where.entry) * slot;
    shard.entries[where.entry] = {offset, fresh.bytes};
    if (keeps_sums_) shard.sums.chunks[where.entry] = {fresh.crc, shard.sums.epoch};
    // The tail of a packed chunk's slot goes back to the file system.
    const std::uint64_t used = align_up(fresh.bytes);
    if (used == slot || !layout_.encode) continue;
    hold(where.shard, shard);
    // Where holes are not supported the tail only costs space.
    ::fallocate(shard.file->buffered(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset + used),
                static_cast<off_t>(slot - used));
  }
}

void ZarrStore::check_ours(const Shape& shard) {
  std::lock_guard lock(mutex_);
  if (const Shard& loaded = load(shard); loaded.exists) check_layout(shard, loaded);
}

void ZarrStore::drop(const Shape& chunk) {
  const Place where = place_of(chunk);
  std::lock_guard lock(mutex_);
  Shard& shard = load(where.shard);
  if (!shard.exists || shard.entries[where.entry].absent()) return;
  if (!shard.unsynced) touch(where.shard, shard);
  shard.entries[where.entry] = {};
  if (keeps_sums_) shard.sums.chunks[where.entry] = {};
}

void ZarrStore::flush() { flush(true); }

/// `last`: nothing is on its way; what was reserved for chunks that stayed absent goes back.
void ZarrStore::flush(bool last) {
  std::lock_guard lock(mutex_);
  if (transacting_) return;  // that is the transaction's
  if (last) drop_idle();
  for (auto& [name, shard] : shards_) {
    if (last && drop_empty(name, shard)) continue;
    if (last && (shard.unsynced || std::exchange(shard.reserved, false))) punch(name, shard, unused(shard));
    if (!shard.unsynced) continue;
    hold(name, shard);
    shard.file->sync();  // the chunks first: an index never names what is not on disk
    write_shard_index(*shard.file, shard.entries, shard.file_bytes);
    shard.file->sync();
    shard.unsynced = false;
    shard.made = 0;
    if (!keeps_sums_) continue;
    shard.sums.stamp = stamp_of(*shard.file, crc_of(shard.entries));
    sums_.save(sums_.number_of(name), shard.sums);
  }
  sums_.sync();
  for (const std::string& path : new_directories_) sync_directory(path);
  new_directories_.clear();
  if (writing_) mark_in_place(false);
}

// ---- a transaction ------------------------------------------------------------------------------------------------

void ZarrStore::begin() {
  if (!options_.writable)
    throw StorageError("write: the array is open for reading only; open it with mode r+", EROFS, directory_);
  if (!still_there())
    throw StorageError("write: the array was replaced or moved meanwhile; open it again", ESTALE, directory_);
  drop_stale();
  flush();  // what was written before is no part of the transaction
  std::lock_guard lock(mutex_);
  look_again();
  for (auto& [name, shard] : shards_) shard.file.reset();  // another program may have put other files there
  open_.clear();
  transacting_ = true;
  broken_ = false;
}

/// What was written outside a transaction was written without the lock: its indexes are of the moment when it was
/// written, and must not go over what others committed since.
void ZarrStore::drop_stale() {
  std::lock_guard lock(mutex_);
  const auto loose = [](const auto& shard) { return shard.second.unsynced; };
  if (std::none_of(shards_.begin(), shards_.end(), loose) || heads() == seen_) return;
  for (auto& [name, shard] : shards_) shard.unsynced = false;
  shards_.clear();
  open_.clear();
  looked_ = false;
  throw StorageError(
      "write: elements were written outside a transaction, and somebody has committed since; they are not stored: "
      "write them again",
      ESTALE, directory_);
}

/// A shard that another program put another file in place of is not the one that was written to.
void ZarrStore::check_in_place(const Shape& shard, const Shard& loaded) const {
  struct stat there;
  const std::string key = metadata_.key(shard);
  if (::fstatat(opened_, key.c_str(), &there, 0) == 0 && there.st_ino == loaded.inode &&
      static_cast<std::uint64_t>(there.st_size) == loaded.file_bytes)
    return;
  throw StorageError("commit: another program rewrote a shard meanwhile, so nothing was stored; start again", ESTALE,
                     path_of(shard));
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
    if (!shard.unsynced || drop_empty(name, shard)) continue;
    hold(name, shard);
    check_in_place(name, shard);
    if (shard.made != 0) punch(name, shard, unused(shard));
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

void ZarrStore::end(End how) {
  std::lock_guard lock(mutex_);
  for (auto at = shards_.begin(); at != shards_.end();) {
    Shard& shard = at->second;
    if (!shard.unsynced && shard.made == 0) {
      ++at;
      continue;
    }
    if (how == End::given_up && shard.made != 0)
      unmake(at->first, shard.made);
    else if (how == End::given_up)
      give_back(at->first, shard, shard.before, given_up(shard));
    else if (how == End::committed)
      give_back(at->first, shard, shard.entries, left_over(shard));
    std::erase(open_, at->first);
    at = shards_.erase(at);
  }
  pending_.clear();
  transacting_ = false;
  looked_ = false;
}

}  // namespace flagstone
