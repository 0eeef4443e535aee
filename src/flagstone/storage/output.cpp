#include "flagstone/storage/output.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <set>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

const std::string lock_suffix = ".lock", old_suffix = ".old";
constexpr char publishing = 'p';  // written into the lock before a publish that takes two steps

bool exists(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_file(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

void remove_tree(const std::string& path) {
  std::error_code ignored;  // what stays is hidden, and swept next time
  fs::remove_all(path, ignored);
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

/// fdatasync of every file and fsync of every directory in the tree, leaves first; links are part of their directory.
void sync_tree(const std::string& path) {
  const auto sync_entry = [](const fs::path& entry) {
    const auto type = fs::symlink_status(entry).type();
    if (type == fs::file_type::directory) sync_directory(entry.string());
    if (type == fs::file_type::regular) File::open(entry.string(), File::Mode::read)->sync();
  };
  std::vector<fs::path> entries{path};
  if (fs::is_directory(path))
    for (const auto& entry : fs::recursive_directory_iterator(path)) entries.push_back(entry.path());
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) sync_entry(*entry);
}

/// The hidden siblings of `path`, without suffixes.
std::set<std::string> siblings(const std::string& prefix) {
  std::set<std::string> found;
  std::error_code ignored;
  const fs::path parent = fs::path(prefix).parent_path();
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    std::string name = entry.path().string();
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    for (const std::string& suffix : {lock_suffix, old_suffix})
      if (name.size() > suffix.size() && name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    found.insert(name);
  }
  return found;
}

/// What a dead writer of `path` left under `hidden`: finished where it died between the two steps of a publish,
/// removed otherwise.
void clear_leftover(const std::string& hidden, const std::string& path) {
  const std::string lock_path = hidden + lock_suffix, old = hidden + old_suffix;
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0 && errno != ENOENT) return;
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return;  // its writer lives, or the file system cannot tell
  }
  char state = 0;
  if (lock >= 0 && ::pread(lock, &state, 1, 0) == 1 && state == publishing && !exists(path))
    rename_with(exists(hidden) ? hidden : old, path, 0);
  remove_tree(hidden);
  remove_tree(old);
  ::unlink(lock_path.c_str());
  if (lock >= 0) ::close(lock);
}

}  // namespace

Output::Output(const std::string& path, bool replace, std::uint64_t bytes_needed)
    : replace_(replace), process_(::getpid()) {
  std::error_code ignored;
  path_ = fs::absolute(path, ignored).string();  // a later chdir must not matter
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  if (fs::is_symlink(path_, ignored)) path_ = fs::weakly_canonical(path_).string();  // the link stays a link
  const std::string name = fs::path(path_).filename().string();
  if (path.empty() || name.empty() || name == "." || name == "..")
    throw StorageError("output: a path that names a new file or directory is needed", EINVAL, path);
  parent_ = fs::path(path_).parent_path().string();
  if (!fs::is_directory(parent_, ignored))
    throw StorageError("output: the directory to write in is not there; make it first",
                       exists(parent_) ? ENOTDIR : ENOENT, parent_);
  hidden_ = (fs::path(parent_) / ("." + name + ".flagstone-tmp-")).string();
  sweep();
  if (!replace_ && exists(path_))
    throw StorageError("output: exists; pass overwrite=True to replace it, or choose another path", EEXIST, path_);
  struct statvfs space;
  if (bytes_needed > 0 && ::statvfs(parent_.c_str(), &space) == 0) {
    const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    if (free < bytes_needed)
      throw StorageError("output: needs " + format_bytes(bytes_needed) + ", and " + format_bytes(free) +
                             " are free; free some space or write elsewhere",
                         ENOSPC, path_);
  }
  take_lock();
}

void Output::sweep() const {
  for (const std::string& hidden : siblings(hidden_)) clear_leftover(hidden, path_);
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
  if (process_ == ::getpid()) {
    remove_tree(hidden_);
    if (lock_ >= 0) ::unlink((hidden_ + lock_suffix).c_str());
  }
  if (lock_ >= 0) ::close(lock_);
}

void Output::publish() {
  if (published_) throw Error("output: " + path_ + " is already published.");
  sync_tree(hidden_);
  if (replace_) {
    exchange();
  } else if (!rename_with(hidden_, path_, RENAME_NOREPLACE)) {
    if (!flags_unsupported(errno) || exists(path_))
      throw StorageError("output: cannot publish; the path appeared meanwhile, or its directory went",
                         flags_unsupported(errno) ? EEXIST : errno, path_);
    if (::rename(hidden_.c_str(), path_.c_str()) != 0) throw StorageError("output: cannot publish", errno, path_);
  }
  published_ = true;
  sync_directory(parent_);
  remove_tree(hidden_);  // the version that was replaced
}

void Output::exchange() {
  for (;;) {
    if (rename_with(hidden_, path_, RENAME_EXCHANGE)) return;
    if (errno == ENOENT && exists(hidden_)) {  // nothing to replace
      if (rename_with(hidden_, path_, RENAME_NOREPLACE)) return;
      if (errno == EEXIST) continue;
    }
    break;
  }
  if (!flags_unsupported(errno)) throw StorageError("output: cannot publish", errno, path_);
  const bool one_step = !exists(path_) || (is_file(path_) && is_file(hidden_));
  const std::string old = hidden_ + old_suffix;
  if (!one_step) {
    // A crash between the two renames leaves no `path`; the mark tells the next writer to finish.
    if (::pwrite(lock_, &publishing, 1, 0) != 1 || ::fsync(lock_) != 0)
      throw StorageError("output: cannot write the lock", errno, hidden_ + lock_suffix);
    sync_directory(parent_);
    if (::rename(path_.c_str(), old.c_str()) != 0) throw StorageError("output: cannot publish", errno, path_);
  }
  if (::rename(hidden_.c_str(), path_.c_str()) != 0) {
    const int number = errno;
    if (!one_step) ::rename(old.c_str(), path_.c_str());
    throw StorageError("output: cannot publish", number, path_);
  }
  if (!one_step) {
    sync_directory(parent_);
    remove_tree(old);
  }
}

}  // namespace flagstone
