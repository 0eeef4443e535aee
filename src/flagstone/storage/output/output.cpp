#include "flagstone/storage/output/output.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/file/space.hpp"
#include "flagstone/storage/file/sync.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/output/build_notes.hpp"
#include "flagstone/storage/output/remove_in_place.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_directory(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string random_id() {
  std::random_device device;
  const std::uint64_t bits = (std::uint64_t{device()} << 32) | device();
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

bool rename_with(const std::string& from, const std::string& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
}

bool flags_unsupported(int number) { return number == EINVAL || number == ENOSYS || number == EOPNOTSUPP; }

}  // namespace

Output::Output(const std::string& path, bool replace, std::uint64_t bytes_needed, const std::string& record)
    : replace_(replace), process_(::getpid()) {
  std::error_code ignored;
  path_ = from_root(path);
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  if (fs::is_symlink(path_, ignored)) path_ = fs::weakly_canonical(path_).string();  // the link stays a link
  const std::string name = fs::path(path_).filename().string();
  if (path.empty() || name.empty() || name == "." || name == "..")
    throw StorageError("output: a path that names a new file or directory is needed", EINVAL, path);
  if (!output_of(path_).empty())
    throw StorageError("output: so are results called that are being built, and swept; name another place", EINVAL,
                       path_);
  parent_ = fs::path(path_).parent_path().string();
  if (!fs::is_directory(parent_, ignored))
    throw StorageError("output: the directory to write in is not there; make it first",
                       path_exists(parent_) ? ENOTDIR : ENOENT, parent_);
  const std::string prefix = hidden_prefix(path_);
  hidden_ = prefix;
  try {
    for (const std::string& hidden : hidden_siblings(prefix))
      if (record.empty() || adopted_ || !adopt(hidden, record)) clear_leftover(hidden, path_);
    if (!replace_ && path_exists(path_))
      throw StorageError("output: exists; pass overwrite=True to replace it, or choose another path", EEXIST, path_);
    check_space(bytes_needed);
    if (!adopted_) take_lock();
    noted_ = !record.empty();
    if (!noted_ || adopted_) return;
    fs::create_directory(notes());
    write_text(notes() + "/record.json", record);
    sync_directory(parent_);
  } catch (const fs::filesystem_error& error) {
    drop();
    throw StorageError("output: cannot make a directory for the record", error.code().value(), parent_);
  } catch (...) {
    drop();
    throw;
  }
}

/// Gives up before anything was built; what was adopted stays for the next.
void Output::drop() noexcept {
  if (lock_ < 0) return;
  if (!adopted_) {
    remove_notes(hidden_);
    ::unlink((hidden_ + lock_suffix).c_str());
  }
  ::close(lock_);
  lock_ = -1;
}

std::string Output::notes() const { return hidden_ + notes_suffix; }

void Output::check_space(std::uint64_t bytes_needed) const {
  if (bytes_needed == 0) return;
  const std::uint64_t free = free_bytes(parent_);
  const std::uint64_t held = adopted_ ? bytes_on_disk(hidden_) : 0;
  if (bytes_needed > held && free < bytes_needed - held)
    throw StorageError("output: needs " + format_bytes(bytes_needed - held) + ", and " + format_bytes(free) +
                           " are free; free some space or write elsewhere",
                       ENOSPC, path_);
}

/// Takes the lock of a dead writer's build whose record is this one. Where locks are missing nothing is taken over.
bool Output::adopt(const std::string& hidden, const std::string& record) {
  const std::string name = hidden + lock_suffix;
  const int lock = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0) return false;
  struct stat ours, there;
  char state = 0;
  const bool taken = ::flock(lock, LOCK_EX | LOCK_NB) == 0 && ::fstat(lock, &ours) == 0 &&
                     ::lstat(name.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
                     (::pread(lock, &state, 1, 0) != 1 || state != publishing || path_exists(path_)) &&
                     ::ftruncate(lock, 0) == 0 && record_of(hidden) == record;
  if (!taken) {
    ::close(lock);
    return false;
  }
  lock_ = lock;
  hidden_ = hidden;
  return adopted_ = true;
}

void Output::take_lock() {
  const std::string prefix = hidden_;
  for (;;) {
    hidden_ = prefix + random_id();
    const std::string name = hidden_ + lock_suffix;
    lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (lock_ < 0 && errno == EEXIST) continue;
    if (lock_ < 0) throw StorageError("output: cannot write in this directory", errno, parent_);
    const bool locked = ::flock(lock_, LOCK_EX | LOCK_NB) == 0;
    // Where locks are missing (some network file systems) nobody gets one, so nobody sweeps: safe, but untidy.
    if (!locked && errno != EWOULDBLOCK) return;
    struct stat ours, there;
    if (locked && ::fstat(lock_, &ours) == 0 && ::lstat(name.c_str(), &there) == 0 && ours.st_ino == there.st_ino)
      return;
    ::close(lock_);  // a sweeper came between open and flock and took it for a dead writer's
  }
}

Output::~Output() {
  if (process_ == ::getpid() && !leave_) {
    remove_notes(hidden_);
    remove_tree(hidden_);
    if (lock_ >= 0) ::unlink((hidden_ + lock_suffix).c_str());
  }
  if (lock_ >= 0) ::close(lock_);
}

void Output::publish() {
  if (published_) throw Error("output: " + path_ + " is already published.");
  sync_tree(hidden_);
  if (noted_) note_build(hidden_);  // an exchange puts the old version there, which nobody must take for the build
  if (replace_) {
    exchange();
  } else if (!rename_to_new(hidden_, path_)) {
    throw StorageError("output: cannot publish; the path appeared meanwhile, or its directory went", errno, path_);
  }
  published_ = true;
  sync_published();
  leave_ = false;
  remove_notes(hidden_);
  remove_tree(hidden_);  // the version that was replaced
}

void Output::exchange() {
  for (;;) {
    if (rename_with(hidden_, path_, RENAME_EXCHANGE)) return;
    if (errno == ENOENT && path_exists(hidden_)) {  // nothing to replace
      if (rename_with(hidden_, path_, RENAME_NOREPLACE)) return;
      if (errno == EEXIST) continue;
    }
    break;
  }
  const int refused = errno;
  if (refused == EXDEV && is_directory(path_)) {
    replace_in_place();
    return;
  }
  if (!flags_unsupported(refused)) throw StorageError("output: cannot publish", refused, path_);
  const bool one_step = !path_exists(path_) || (is_file(path_) && is_file(hidden_));
  const std::string old = hidden_ + old_suffix;
  if (!one_step) {
    // A crash between the two renames leaves no `path`; the mark tells the next writer to finish.
    announce(publishing);
    if (::rename(path_.c_str(), old.c_str()) != 0) throw StorageError("output: cannot publish", errno, path_);
  }
  if (::rename(hidden_.c_str(), path_.c_str()) != 0) {
    const int number = errno;
    if (!one_step && ::rename(old.c_str(), path_.c_str()) != 0) {
      leave_ = true;  // the lock says what is to be done
      throw StorageError(
          "output: the old version is set aside and the new one could not take its place; the next writer of this "
          "path finishes that, and the new version is stored then",
          number, path_);
    }
    throw StorageError("output: cannot publish", number, path_);
  }
  if (!one_step) {
    sync_published();
    remove_tree(old);
  }
}

/// Tells the next writer of the path, durably, what a publish is about to do.
void Output::announce(char state) {
  const std::string lock = hidden_ + lock_suffix;
  if (::pwrite(lock_, &state, 1, 0) != 1) throw StorageError("output: cannot write the lock", errno, lock);
  sync_file(lock_, lock, "output: cannot sync the lock");
  sync_directory(parent_);
}

/// A directory of a lower layer of an overlay cannot be renamed (EXDEV). It is removed where it lies; from the moment
/// when it is nothing any more the new version counts, and the next writer finishes what a death leaves undone.
void Output::replace_in_place() {
  announce(replacing);
  if (!remove_in_place(path_)) throw StorageError("output: cannot publish", errno, path_);
  if (rename_to_new(hidden_, path_)) return;
  const int number = errno;
  leave_ = true;
  throw StorageError(
      "output: the old version could be removed in part only, and the new one not take its place; the next writer of "
      "this path finishes that, and the new version is stored then",
      number, path_);
}

void Output::remove_replaced() {
  // Tells, as long as it is there, that this is not done.
  if (::mkdir(hidden_.c_str(), 0777) != 0) throw StorageError("delete: cannot write in this directory", errno, parent_);
  announce(deleting);
  if (!remove_in_place(path_)) throw StorageError("delete: cannot remove", errno, path_);
  leave_ = true;
  int number = path_exists(path_) ? EIO : 0;
  try {
    if (number == 0) sync_directory(parent_);
  } catch (const StorageError& error) {
    number = error.number;
  }
  if (number != 0)
    throw StorageError(
        "delete: it is deleted for everybody, but it could not be synced, or not all files removed; the next writer of "
        "that path does that",
        number, path_);
  leave_ = false;
}

/// The old version stays until the new name is on the disk; the next writer of the path removes it then.
void Output::sync_published() {
  if (goes_with_us(path_)) return;
  try {
    sync_directory(parent_);
  } catch (const StorageError& error) {
    leave_ = true;
    throw StorageError(
        "output: the result is in place and everybody sees it, but its directory could not be synced; it is stored for "
        "certain once that is done (sync)",
        error.number, path_);
  }
}

}  // namespace flagstone
