#include "flagstone/storage/transaction.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <random>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/zarr.hpp"
#include "flagstone/storage/zarr_store.hpp"

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
  return "process " + std::to_string(::getpid()) + " since " + when + "\n";
}

/// A descriptor of a directory, for its journal.
class Opened {
 public:
  explicit Opened(const std::string& directory)
      : descriptor_(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw StorageError("commit: cannot open the array", errno, directory);
  }
  ~Opened() { ::close(descriptor_); }
  Opened(const Opened&) = delete;
  operator int() const { return descriptor_; }

 private:
  int descriptor_;
};

JournalHead head_of(const std::string& directory) { return Journal(Opened(directory), directory).head(); }

std::string way(const std::string& from, const std::string& to) {
  const std::string path = fs::canonical(to).lexically_relative(fs::canonical(from)).string();
  return path.empty() ? "." : path;
}

/// Indexes and checksums as a record says, on the disk when it returns; may be repeated. A shard that another program
/// replaced since has another length and is left alone.
void write_indexes(const std::string& directory, const ArrayRecord& record) {
  const Array array = open_zarr_array(directory);
  const ArrayMetadata& metadata = zarr_store(array)->metadata();
  const Opened opened(directory);
  ChunkSums sums(opened, directory, metadata);
  for (const ShardRecord& shard : record.shards) {
    std::shared_ptr<File> file;
    try {
      file = File::open(directory + "/" + metadata.key(shard.shard), File::Mode::update);
    } catch (const StorageError& error) {
      if (error.number == ENOENT) continue;
      throw;
    }
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

void clear(const std::string& directory) {
  if (head_of(directory).state == JournalHead::State::idle) return;
  const Opened opened(directory);
  commit_step("clear");
  Journal(opened, directory).clear();
}

void finish(const Committed& found) {
  std::vector<std::string> places;
  for (const ArrayRecord& array : found.record) {
    places.push_back((fs::path(found.holder) / array.path).lexically_normal().string());
    if (fs::exists(places.back())) write_indexes(places.back(), array);
  }
  clear(found.holder);  // first: what points to it counts for nothing then
  for (const std::string& place : places)
    if (fs::exists(place)) clear(place);
}

}  // namespace

WriterLock::WriterLock(const std::string& directory) : process_(::getpid()) {
  std::error_code ignored;
  fs::create_directory(directory + "/__flagstone", ignored);
  const std::string path = directory + "/__flagstone/lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw StorageError("write: cannot take the array's lock", errno, path);
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int number = errno;
    std::string who = contents(file_);
    if (who.starts_with("process " + std::to_string(::getpid()) + " "))
      who = "another handle of this process" + who.substr(who.find(" since"));
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

void recover(const std::string& directory) {
  std::optional<Committed> found = committed(directory);
  if (!found) return clear(directory);  // it points to what was never committed
  std::vector<std::unique_ptr<WriterLock>> locks;
  for (const ArrayRecord& array : found->record) {
    const std::string other = (fs::path(found->holder) / array.path).lexically_normal().string();
    std::error_code ignored;
    if (fs::exists(other) && !fs::equivalent(other, directory, ignored))
      locks.push_back(std::make_unique<WriterLock>(other));
  }
  found = committed(directory);
  if (found) finish(*found);
}

Transaction::~Transaction() { rollback(); }

bool Transaction::add(const Array& array) {
  ZarrStore* store = zarr_store(array);
  if (!store || !store->metadata().sharded) return false;
  std::lock_guard lock(mutex_);
  for (const Part& part : parts_)
    if (part.store == store) return true;
  Part part{array, store, std::make_unique<WriterLock>(store->directory())};
  recover(store->directory());
  store->begin();
  parts_.push_back(std::move(part));
  return true;
}

void Transaction::commit() {
  std::vector<std::string> places;
  CommitRecord record;
  for (Part& part : parts_) {
    ArrayRecord one = part.store->prepare();
    if (one.shards.empty()) continue;
    places.push_back(part.store->directory());
    one.path = way(places.front(), places.back());
    record.push_back(std::move(one));
  }
  if (!record.empty()) {
    std::random_device device;
    const std::uint64_t id = (std::uint64_t{device()} << 32) | device();
    for (std::size_t i = 1; i < places.size(); ++i)
      Journal(Opened(places[i]), places[i]).point(head_of(places[i]), id, way(places[i], places[0]));
    Journal(Opened(places[0]), places[0]).commit(head_of(places[0]), id, record);
    try {
      finish({record, places[0]});
    } catch (...) {
      for (Part& part : parts_) part.store->end(true);
      parts_.clear();
      throw;  // it is committed: readers overlay the record, the next writer finishes
    }
  }
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
