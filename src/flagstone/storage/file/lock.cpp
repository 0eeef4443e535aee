#include "flagstone/storage/file/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/descriptor.hpp"

namespace flagstone {

FileLock FileLock::make(const std::string& path, unsigned mode) {
  for (;;) {
    FileLock lock(without_interruption([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode); }));
    if (!lock) throw StorageError("storage: cannot make the lock", errno, path);
    if (before_lock) before_lock(path);
    without_interruption([&] { return ::flock(lock.file_, LOCK_EX); });  // fails where there are no locks: see above
    if (lock.is_at(path)) return lock;
  }
}

FileLock FileLock::share(const std::string& path) {
  for (;;) {
    FileLock lock(without_interruption([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); }));
    if (!lock) return lock;
    without_interruption([&] { return ::flock(lock.file_, LOCK_SH); });
    if (lock.is_at(path)) return lock;
  }
}

FileLock FileLock::take(const std::string& path) {
  FileLock lock(without_interruption([&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); }));
  if (lock && ::flock(lock.file_, LOCK_EX | LOCK_NB) != 0) lock.close();
  return lock;
}

FileLock FileLock::wait(const std::string& path) {
  FileLock lock(without_interruption([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (lock && before_lock) before_lock(path);
  if (lock) without_interruption([&] { return ::flock(lock.file_, LOCK_EX); });  // as make()
  return lock;
}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

bool FileLock::is_at(const std::string& path) const {
  struct stat ours, there;
  return ::fstat(file_, &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

void FileLock::close() noexcept {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

bool file_locked(const std::string& path) {
  const Descriptor file(without_interruption([&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); }));
  return file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) != 0;
}

}  // namespace flagstone
