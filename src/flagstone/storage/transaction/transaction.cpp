#include "flagstone/storage/transaction/transaction.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/zarr/shard/shard_index.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

/// Empty between the lock and its text, and after a holder that has gone.
std::string contents(int file) {
  char text[200];
  const ssize_t got = ::pread(file, text, sizeof text, 0);
  const std::string line(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  return line.empty() ? "another process, or another handle of this one" : line.substr(0, line.find('\n'));
}

std::string about_us() {
  char when[40] = "";
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (::localtime_r(&now, &local)) std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
  return "process " + std::to_string(::getpid()) + " (" + program_invocation_short_name + ") since " + when + "\n";
}

using Place = std::shared_ptr<const Directory>;

std::string way(const std::string& from, const std::string& to) {
  const std::string path = fs::canonical(to).lexically_relative(fs::canonical(from)).string();
  return path.empty() ? "." : path;
}

/// Whether a shard is shorter than a record says because it was cut: one that another program wrote ends with an index.
bool was_cut(const File& file, const ArrayMetadata& metadata, std::uint64_t bytes) {
  if (file.size() >= bytes) return false;
  try {
    read_shard_index(file, metadata);
    return false;
  } catch (const FormatError&) {
    return true;
  }
}

/// Indexes and checksums as a record says, on the disk when it returns; may be repeated. A shard that another program
/// replaced since has another length and is left alone. One that was cut gets its length back, where checksums tell
/// which chunks lost something: else what was committed would be given up with them.
void write_indexes(const Directory& directory, const ArrayRecord& record) {
  const Array array = open_zarr_array(directory.self());
  const ArrayMetadata& metadata = zarr_store(array)->metadata();
  ChunkSums sums(directory.descriptor(), directory.path(), metadata);
  for (const ShardRecord& shard : record.shards) {
    std::shared_ptr<File> file;
    try {
      file = File::open(directory.file(metadata.key(shard.shard)), File::Mode::update);
    } catch (const StorageError& error) {
      if (error.number == ENOENT) continue;
      throw;
    }
    if (!shard.sums.empty() && was_cut(*file, metadata, shard.file_bytes)) file->truncate(shard.file_bytes);
    if (file->size() != shard.file_bytes || shard.entries.size() != static_cast<std::size_t>(metadata.entries()))
      continue;
    commit_step("index");
    write_shard_index(*file, shard.entries, shard.file_bytes);
    commit_step("index sync");
    file->sync();
    if (shard.sums.empty()) continue;
    commit_step("checksums");
    sums.save(sums.number_of(shard.shard),
              {ShardSums::State::known, shard.epoch, stamp_of(*file, crc_of(shard.entries)), shard.sums});
  }
  commit_step("checksums sync");
  sums.sync();
}

void clear(const Directory& directory) {
  if (Journal(directory).head().state == JournalHead::State::idle) return;
  commit_step("clear");
  Journal(directory).clear();
}

/// `places`: of the arrays of the record, in its order; null for those that take no part any more.
void finish(const Committed& found, const std::vector<Place>& places) {
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i]) write_indexes(*places[i], found.record[i]);
  clear(*found.holder);  // first: what points to it counts for nothing then
  for (const Place& place : places)
    if (place) clear(*place);
}

/// Takes back a record whose write failed, where that can be made certain: true where nothing is committed.
bool take_back(const Directory& holder, std::uint64_t id) noexcept {
  try {
    const Journal journal(holder);
    if (journal.head().id == id) Journal(holder).clear();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

WriterLock::WriterLock(const Directory& place) : process_(::getpid()) {
  const std::string& directory = place.path();
  const bool there = ::mkdirat(place.descriptor(), "__flagstone", 0777) == 0 || errno == EEXIST;
  if (there) file_ = ::openat(place.descriptor(), "__flagstone/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0 && errno == ENOENT)
    throw StorageError("write: the array was replaced or removed meanwhile; open it again", ESTALE, directory);
  if (file_ < 0) throw StorageError("write: cannot take the array's lock", errno, directory + "/__flagstone/lock");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int number = errno;
    std::string who = contents(file_);
    if (who.starts_with("process " + std::to_string(::getpid()) + " "))
      who = "another handle of this process" + who.substr(who.find(" ("));
    ::close(file_);
    file_ = -1;
    if (number == EWOULDBLOCK)
      throw StorageError("write: the array is being written by " + who + "; try again when it is done", EBUSY,
                         directory);
    throw StorageError("write: the file system has no locks, so the array cannot be changed in place; copy it", number,
                       directory);
  }
  const std::string text = about_us();
  if (::pwrite(file_, text.data(), text.size(), 0) < 0) {
  }  // the lock is what counts; the text is for messages
}

WriterLock::~WriterLock() {
  if (file_ < 0) return;
  if (process_ != ::getpid()) {  // forked: the lock is the parent's
    ::close(file_);
    return;
  }
  if (::ftruncate(file_, 0) != 0) {
  }                         // a name that has gone is only misleading
  ::flock(file_, LOCK_UN);  // closing does not give it back while a forked child has the descriptor
  ::close(file_);
}

std::vector<std::string> recover(const Place& directory) {
  std::optional<Committed> found = committed(directory);
  if (!found) {
    clear(*directory);  // it points to what was never committed
    return {};
  }
  std::vector<std::unique_ptr<WriterLock>> locks;
  std::vector<Place> places;
  std::vector<std::string> left;
  for (const ArrayRecord& array : found->record) {
    Place place = found->holder->at(array.path);
    const bool own = place && place->same(*found->holder);
    if (place && !own && !points_to(*place, *found)) place = nullptr;
    if (place && !place->same(*directory)) locks.push_back(std::make_unique<WriterLock>(*place));
    if (!place) left.push_back((fs::path(found->holder->path()) / array.path).lexically_normal().string());
    places.push_back(std::move(place));
  }
  const std::optional<Committed> again = committed(directory);  // another one may have finished it before the locks
  if (again && again->id == found->id) finish(*found, places);
  return left;
}

Transaction::~Transaction() { rollback(); }

bool Transaction::add(const Array& array) { return add_locked(array, nullptr); }

bool Transaction::add_locked(const Array& array, std::shared_ptr<WriterLock> taken) {
  ZarrStore* store = zarr_store(array);
  if (!store || !store->metadata().sharded || store->in_place()) return false;
  std::lock_guard lock(mutex_);
  for (const Part& part : parts_)
    if (part.store == store) return true;
  const auto place = std::make_shared<const Directory>(store->directory());
  if (!taken) taken = std::make_shared<WriterLock>(*place);
  Part part{array, store, std::move(taken), place};
  if (Journal(*place).head().state == JournalHead::State::writing)
    throw StorageError("write: this array is the next one of a ring of epochs; write it through fl.epochs", EBUSY,
                       place->path());
  recover(place);
  store->begin();
  parts_.push_back(std::move(part));
  return true;
}

void Transaction::commit() {
  std::vector<Place> places;
  Committed fresh;
  for (Part& part : parts_) {
    ArrayRecord one = part.store->prepare();
    if (one.shards.empty()) continue;
    places.push_back(part.place);
    one.path = way(places.front()->path(), places.back()->path());
    fresh.record.push_back(std::move(one));
  }
  if (!places.empty()) {
    fresh.id = new_transaction_id();
    fresh.holder = places[0];
    for (std::size_t i = 1; i < places.size(); ++i)
      Journal(*places[i]).point(Journal(*places[i]).head(), fresh.id, way(places[i]->path(), places[0]->path()));
    record(fresh);
    try {
      finish(fresh, places);
    } catch (const StorageError& error) {
      end();
      throw StorageError(
          "commit: the update is stored and every reader sees it, but tidying up failed; the next writer does that",
          error.number, places[0]->path());
    } catch (...) {
      end();
      throw;
    }
  }
  end();
}

/// Writes the record, which commits it; where that fails nothing is committed, or it is said that nobody knows.
void Transaction::record(const Committed& fresh) {
  try {
    Journal(*fresh.holder).commit(Journal(*fresh.holder).head(), fresh.id, fresh.record);
  } catch (const std::exception& error) {
    if (take_back(*fresh.holder, fresh.id)) throw;
    end();  // nothing is taken away: the disk may say that it is committed
    const auto* storage = dynamic_cast<const StorageError*>(&error);
    throw StorageError(
        "commit: the journal could be neither written nor cleared, so the update may be stored, all of it or nothing; "
        "look at the disk, then read the array again",
        storage ? storage->number : EIO, fresh.holder->path());
  }
}

void Transaction::end() {
  for (Part& part : parts_) part.store->end(true);
  parts_.clear();
}

void Transaction::rollback() noexcept {
  for (Part& part : parts_) try {
      part.store->end(false);
    } catch (...) {
    }
  parts_.clear();
}

}  // namespace flagstone
