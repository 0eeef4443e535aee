// Stands between a program and the C library (LD_PRELOAD) and makes a disk below one directory bad: full, over its
// quota, unreadable, without flags of renameat2 or fallocate. bad_disk.py builds and loads it. What io_uring does is
// not seen: programs run with io="threads".
//
// A disk that is full takes nothing more, but files can be removed, renamed and made shorter; what `fail` counts as
// growing is that: new files and directories, what is written, and what is reserved.
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

namespace {

enum Kind { grow, read_, change, kinds };  // change: what a full disk lets through, and a read-only one does not

std::recursive_mutex mutex;
std::string watched;  // empty: nothing is counted
long counted[kinds], first[kinds], end[kinds];
int number[kinds];
bool no_flags = false, no_fallocate = false;
ino_t lower = 0;  // a directory of a lower layer of an overlay: it cannot be renamed

std::string linked(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : "";
}

bool below(int at, const char* path) {
  if (watched.empty()) return false;
  std::string full = path ? path : "";
  if (!path) {
    full = linked("/proc/self/fd/" + std::to_string(at));
  } else if (full.rfind("/proc/self/fd/", 0) == 0) {
    const auto slash = full.find('/', 14);
    full = linked(full.substr(0, slash)) + (slash == std::string::npos ? "" : full.substr(slash));
  } else if (full.empty() || full[0] != '/') {
    full = linked(at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(at)) + "/" + full;
  }
  return full.rfind(watched, 0) == 0 && (full.size() == watched.size() || full[watched.size()] == '/');
}

/// The errno of a step, 0: it is done.
int step(Kind kind, int at, const char* path) {
  if (!below(at, path)) return 0;
  std::lock_guard lock(mutex);
  const long now = ++counted[kind];
  return now >= first[kind] && now < end[kind] ? number[kind] : 0;
}

template <class Call>
auto unless(int error, Call&& call) -> decltype(call()) {
  if (error == 0) return call();
  errno = error;
  return -1;
}

int opened(int at, const char* name, int flags, mode_t mode) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_openat, at, name, flags, mode)); };
  struct stat status;
  const bool makes = (flags & O_CREAT) && ::fstatat(at, name, &status, 0) != 0;
  return unless(makes || (flags & O_TMPFILE) == O_TMPFILE ? step(grow, at, name) : 0, call);
}

mode_t mode_from(int flags, va_list& list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; }

bool is_lower(int at, const char* path) {
  struct stat status;
  return lower != 0 && ::fstatat(at, path, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_ino == lower;
}

int renamed(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  if (is_lower(from_at, from) || ((flags & RENAME_EXCHANGE) && is_lower(to_at, to)))
    return unless(EXDEV, [] { return 0; });
  if (flags != 0 && no_flags && below(to_at, to)) return unless(EINVAL, [] { return 0; });
  return unless(step(change, to_at, to),
                [&] { return static_cast<int>(::syscall(SYS_renameat2, from_at, from, to_at, to, flags)); });
}

}  // namespace

#define TAKE_MODE                             \
  va_list list;                               \
  va_start(list, flags);                      \
  const mode_t mode = mode_from(flags, list); \
  va_end(list)

extern "C" {

// ---- what tests call ----------------------------------------------------------------------------------------------

void bad_disk_watch(const char* directory) {
  std::lock_guard lock(mutex);
  watched = directory;
  for (int kind = 0; kind < kinds; ++kind) counted[kind] = first[kind] = end[kind] = 0;
}
void bad_disk_fail(int kind, long at, int with, long times) {
  std::lock_guard lock(mutex);
  counted[kind] = 0, first[kind] = at, end[kind] = at + times, number[kind] = with;
}
void bad_disk_without(int flags, int fallocating) { no_flags = flags, no_fallocate = fallocating; }
void bad_disk_lower(const char* path) {
  struct stat status;
  lower = ::stat(path, &status) == 0 ? status.st_ino : 0;
}
long bad_disk_count(int kind) { return counted[kind]; }

// ---- what programs call -------------------------------------------------------------------------------------------

ssize_t pwrite64(int fd, const void* from, size_t bytes, off_t at) {
  return unless(step(grow, fd, nullptr), [&] { return ::syscall(SYS_pwrite64, fd, from, bytes, at); });
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t at) { return pwrite64(fd, from, bytes, at); }
ssize_t write(int fd, const void* from, size_t bytes) {
  return unless(step(grow, fd, nullptr), [&] { return ::syscall(SYS_write, fd, from, bytes); });
}
ssize_t writev(int fd, const iovec* vectors, int count) {
  return unless(step(grow, fd, nullptr), [&] { return ::syscall(SYS_writev, fd, vectors, count); });
}
ssize_t pwritev64(int fd, const iovec* vectors, int count, off_t at) {
  return unless(step(grow, fd, nullptr), [&] { return ::syscall(SYS_pwritev, fd, vectors, count, at, 0); });
}
ssize_t pwritev(int fd, const iovec* vectors, int count, off_t at) { return pwritev64(fd, vectors, count, at); }

ssize_t pread64(int fd, void* to, size_t bytes, off_t at) {
  return unless(step(read_, fd, nullptr), [&] { return ::syscall(SYS_pread64, fd, to, bytes, at); });
}
ssize_t pread(int fd, void* to, size_t bytes, off_t at) { return pread64(fd, to, bytes, at); }
ssize_t preadv64(int fd, const iovec* vectors, int count, off_t at) {
  return unless(step(read_, fd, nullptr), [&] { return ::syscall(SYS_preadv, fd, vectors, count, at, 0); });
}
ssize_t preadv(int fd, const iovec* vectors, int count, off_t at) { return preadv64(fd, vectors, count, at); }
ssize_t read(int fd, void* to, size_t bytes) {
  return unless(step(read_, fd, nullptr), [&] { return ::syscall(SYS_read, fd, to, bytes); });
}

int fallocate64(int fd, int mode, off_t at, off_t bytes) {
  const bool punches = mode & FALLOC_FL_PUNCH_HOLE;
  if (no_fallocate && below(fd, nullptr)) return unless(EOPNOTSUPP, [] { return 0; });
  return unless(step(punches ? change : grow, fd, nullptr),
                [&] { return static_cast<int>(::syscall(SYS_fallocate, fd, mode, at, bytes)); });
}
int fallocate(int fd, int mode, off_t at, off_t bytes) { return fallocate64(fd, mode, at, bytes); }
int posix_fallocate64(int fd, off_t at, off_t bytes) { return fallocate64(fd, 0, at, bytes) == 0 ? 0 : errno; }
int posix_fallocate(int fd, off_t at, off_t bytes) { return posix_fallocate64(fd, at, bytes); }
int ftruncate64(int fd, off_t bytes) noexcept {
  return unless(step(change, fd, nullptr), [&] { return static_cast<int>(::syscall(SYS_ftruncate, fd, bytes)); });
}
int ftruncate(int fd, off_t bytes) noexcept { return ftruncate64(fd, bytes); }

int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  return renamed(from_at, from, to_at, to, flags);
}
int renameat(int from_at, const char* from, int to_at, const char* to) noexcept {
  return renamed(from_at, from, to_at, to, 0);
}
int rename(const char* from, const char* to) noexcept { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlinkat(int at, const char* name, int flags) noexcept {
  return unless(step(change, at, name), [&] { return static_cast<int>(::syscall(SYS_unlinkat, at, name, flags)); });
}
int unlink(const char* name) noexcept { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char* name) noexcept { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int mkdirat(int at, const char* name, mode_t mode) noexcept {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_mkdirat, at, name, mode)); };
  struct stat status;
  return ::fstatat(at, name, &status, 0) == 0 ? call() : unless(step(grow, at, name), call);
}
int mkdir(const char* name, mode_t mode) noexcept { return mkdirat(AT_FDCWD, name, mode); }
int symlinkat(const char* target, int at, const char* name) noexcept {
  return unless(step(grow, at, name), [&] { return static_cast<int>(::syscall(SYS_symlinkat, target, at, name)); });
}
int symlink(const char* target, const char* name) noexcept { return symlinkat(target, AT_FDCWD, name); }

int openat64(int at, const char* name, int flags, ...) {
  TAKE_MODE;
  return opened(at, name, flags, mode);
}
int openat(int at, const char* name, int flags, ...) {
  TAKE_MODE;
  return opened(at, name, flags, mode);
}
int open64(const char* name, int flags, ...) {
  TAKE_MODE;
  return opened(AT_FDCWD, name, flags, mode);
}
int open(const char* name, int flags, ...) {
  TAKE_MODE;
  return opened(AT_FDCWD, name, flags, mode);
}
}
