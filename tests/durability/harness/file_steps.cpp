// Stands between a program and the C library (LD_PRELOAD): counts every step that changes a file below one directory,
// ends the process at the nth, stops it there, lets it fail, or writes down what was done, for crash.py,
// interleavings.py and power_loss.py. For processes that only read, reads and openings can be counted instead.
//
// Steps are system calls: each either happened or did not when a process is killed, except that a write may be torn,
// which is a step of its own here. Writes through io_uring are made by the kernel later; there the submission and the
// completion are steps. A recording serializes all steps, so that its order is the order in which they ended.
#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

enum Kind : std::uint32_t { create, mkdir_, link_, remove_, rename_, write_, resize, allocate, sync_, mark_, unknown };

std::recursive_mutex mutex;
std::string watched;  // directory; empty: nothing is counted
long steps = 0, die_at = 0, torn_at = 0, stop_at = 0, fail_at = 0, fail_until = 0;
bool reads_count = false;
int fail_with = 0;
bool no_flags = false, lower = false;
int journal = -1;

struct Entry {
  std::uint32_t kind, text;
  std::uint64_t a, b, c, d, bytes;
};

void put(const void* from, std::size_t bytes) {
  const char* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const long done = ::syscall(SYS_write, journal, at, bytes);
    if (done <= 0) ::abort();
    at += done, bytes -= static_cast<std::size_t>(done);
  }
}

void note(Kind kind, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t d = 0,
          const std::string& text = {}, const std::string& bytes = {}) {
  if (journal < 0) return;
  const Entry entry{kind, static_cast<std::uint32_t>(text.size()), a, b, c, d, bytes.size()};
  put(&entry, sizeof entry);
  put(text.data(), text.size());
  put(bytes.data(), bytes.size());
}

std::string linked(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : "";
}

std::string of_descriptor(int fd) { return linked("/proc/self/fd/" + std::to_string(fd)); }

/// Absolute, the directory part free of /proc/self/fd; the last name is left as it is.
std::string of_path(int at, const char* path) {
  std::string full = path ? path : "";
  if (full.empty() || full[0] != '/')
    full = (at == AT_FDCWD ? linked("/proc/self/cwd") : of_descriptor(at)) + "/" + full;
  const std::string self = "/proc/self/fd/";
  if (full.compare(0, self.size(), self) == 0) {
    const auto end = full.find('/', self.size());
    full = linked(full.substr(0, end)) + (end == std::string::npos ? "" : full.substr(end));
  }
  while (full.size() > 1 && full.back() == '/') full.pop_back();
  return full;
}

bool below(const std::string& path) {
  return !watched.empty() && path.compare(0, watched.size(), watched) == 0 &&
         (path.size() == watched.size() || path[watched.size()] == '/');
}

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::uint64_t inode_of(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}
std::uint64_t parent_of(const std::string& path) { return inode_of(path.substr(0, path.rfind('/'))); }
std::uint64_t inode_of(int fd) {
  struct stat status;
  return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

/// Before a step: ends the process, or says with which errno it is to fail (0: it goes on).
int before(bool* torn = nullptr) {
  ++steps;
  if (steps == torn_at && torn) {
    *torn = true;
    return 0;
  }
  if (steps == die_at || steps == torn_at) ::syscall(SYS_kill, ::getpid(), SIGKILL);
  if (steps == stop_at) ::syscall(SYS_kill, ::getpid(), SIGSTOP);  // until somebody sends SIGCONT
  return steps >= fail_at && steps < fail_until ? fail_with : 0;
}

/// Before a step of a reader.
void look() {
  std::lock_guard lock(mutex);
  before();
}

template <class Call>
ssize_t read_(int fd, Call&& call) {
  if (reads_count && !watched.empty() && below(of_descriptor(fd))) look();
  return call();
}

long failed(int number) {
  errno = number;
  return -1;
}

std::string gathered(const iovec* vectors, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.append(static_cast<const char*>(vectors[i].iov_base), vectors[i].iov_len);
  return bytes;
}

template <class Call>
ssize_t written(int fd, const iovec* vectors, int count, off_t offset, Call&& call) {
  if (watched.empty() || !below(of_descriptor(fd))) return call();
  std::lock_guard lock(mutex);
  bool torn = false;
  if (const int number = before(&torn)) return failed(number);
  if (torn) {  // a write through the page cache goes page by page, and looks for signals between them
    const std::string bytes = gathered(vectors, count);
    if (offset < 0) offset = ::lseek(fd, 0, SEEK_CUR);
    const auto end = (offset + static_cast<off_t>(bytes.size() / 2)) / 4096 * 4096;
    if (end > offset && !(::fcntl(fd, F_GETFL) & O_DIRECT))
      ::syscall(SYS_pwrite64, fd, bytes.data(), end - offset, offset);
    ::syscall(SYS_kill, ::getpid(), SIGKILL);
  }
  if (offset < 0) offset = ::lseek(fd, 0, SEEK_CUR);
  const ssize_t done = call();
  if (done > 0 && journal >= 0)
    note(write_, inode_of(fd), static_cast<std::uint64_t>(offset), 0, 0, "",
         gathered(vectors, count).substr(0, static_cast<std::size_t>(done)));
  return done;
}

template <class Call>
int entry_made(Kind kind, const std::string& path, const std::string& target, Call&& call) {
  if (!below(path)) return call();
  std::lock_guard lock(mutex);
  if (const int number = before()) return static_cast<int>(failed(number));
  const int done = call();
  if (done == 0) note(kind, parent_of(path), inode_of(path), 0, 0, name_in(path) + std::string(1, '\0') + target);
  return done;
}

int removed(int at, const char* name, int flags) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_unlinkat, at, name, flags)); };
  if (watched.empty()) return call();
  const std::string path = of_path(at, name);
  if (!below(path)) return call();
  std::lock_guard lock(mutex);
  const std::uint64_t inode = inode_of(path);
  if (inode == 0) return call();  // there is nothing to remove
  if (const int number = before()) return static_cast<int>(failed(number));
  const int done = call();
  if (done == 0) note(remove_, parent_of(path), inode, 0, 0, name_in(path));
  return done;
}

int renamed(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_renameat2, from_at, from, to_at, to, flags)); };
  if (watched.empty()) return call();
  const std::string one = of_path(from_at, from), two = of_path(to_at, to);
  if (!below(one) && !below(two)) return call();
  std::lock_guard lock(mutex);
  if (flags != 0 && no_flags) return static_cast<int>(failed(EINVAL));
  const auto fixed = [](const std::string& path) {
    struct stat status;
    return name_in(path)[0] != '.' && ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  };
  if (lower && (fixed(one) || ((flags & RENAME_EXCHANGE) && fixed(two)))) return static_cast<int>(failed(EXDEV));
  if (const int number = before()) return static_cast<int>(failed(number));
  const std::uint64_t inode = inode_of(one), other = inode_of(two);
  const int done = call();
  if (done == 0)
    note(rename_, parent_of(one), parent_of(two), flags, inode, name_in(one) + std::string(1, '\0') + name_in(two),
         std::string(reinterpret_cast<const char*>(&other), sizeof other));
  return done;
}

int opened(int at, const char* name, int flags, mode_t mode) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_openat, at, name, flags, mode)); };
  if (reads_count && !watched.empty() && !(flags & O_CREAT) && below(of_path(at, name))) look();
  if (watched.empty() || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE) return call();
  const std::string path = of_path(at, name);
  if (!below(path)) return call();
  std::lock_guard lock(mutex);
  struct stat status;
  const bool there = ::stat(path.c_str(), &status) == 0;
  if (there && !(flags & O_TRUNC)) return call();
  if (const int number = before()) return static_cast<int>(failed(number));
  const int fd = call();
  if (fd < 0) return fd;
  if (!there)
    note(create, parent_of(path), inode_of(fd), 0, 0, name_in(path));
  else
    note(resize, inode_of(fd), 0);
  return fd;
}

template <class Call>
int changed(int fd, Kind kind, std::uint64_t b, std::uint64_t c, std::uint64_t d, Call&& call) {
  if (watched.empty() || !below(of_descriptor(fd))) return call();
  std::lock_guard lock(mutex);
  if (const int number = before()) return static_cast<int>(failed(number));
  const int done = call();
  if (done == 0) note(kind, inode_of(fd), b, c, d);
  return done;
}

mode_t mode_from(int flags, va_list& list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; }

}  // namespace

extern "C" {

// ---- what tests call ----------------------------------------------------------------------------------------------

void steps_watch(const char* directory) {
  watched = directory;
  steps = die_at = torn_at = stop_at = fail_at = fail_until = 0;
  reads_count = false;
}
void steps_stop(long at) { stop_at = at; }
void steps_reads() { reads_count = true; }
void steps_die(long at, int torn) { (torn ? torn_at : die_at) = at; }
void steps_fail(long at, int number, long times) { fail_at = at, fail_until = at + times, fail_with = number; }
void steps_without_flags(int on) { no_flags = on; }
void steps_lower(int on) { lower = on; }
long steps_count() { return steps; }
void steps_record(const char* file) {
  journal = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_TRUNC, 0666));
}
void steps_mark(const char* text) {
  std::lock_guard lock(mutex);
  note(mark_, 0, 0, 0, 0, text);
}

// ---- what programs call -------------------------------------------------------------------------------------------

ssize_t pwrite64(int fd, const void* from, size_t bytes, off_t offset) {
  const iovec one{const_cast<void*>(from), bytes};
  return written(fd, &one, 1, offset, [&] { return ::syscall(SYS_pwrite64, fd, from, bytes, offset); });
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) { return pwrite64(fd, from, bytes, offset); }
ssize_t write(int fd, const void* from, size_t bytes) {
  const iovec one{const_cast<void*>(from), bytes};
  return written(fd, &one, 1, -1, [&] { return ::syscall(SYS_write, fd, from, bytes); });
}
ssize_t writev(int fd, const iovec* vectors, int count) {
  return written(fd, vectors, count, -1, [&] { return ::syscall(SYS_writev, fd, vectors, count); });
}
ssize_t pwritev64(int fd, const iovec* vectors, int count, off_t offset) {
  return written(fd, vectors, count, offset, [&] { return ::syscall(SYS_pwritev, fd, vectors, count, offset, 0); });
}
ssize_t pwritev(int fd, const iovec* vectors, int count, off_t offset) { return pwritev64(fd, vectors, count, offset); }

ssize_t pread64(int fd, void* to, size_t bytes, off_t offset) {
  return read_(fd, [&] { return ::syscall(SYS_pread64, fd, to, bytes, offset); });
}
ssize_t pread(int fd, void* to, size_t bytes, off_t offset) { return pread64(fd, to, bytes, offset); }
ssize_t preadv64(int fd, const iovec* vectors, int count, off_t offset) {
  return read_(fd, [&] { return ::syscall(SYS_preadv, fd, vectors, count, offset, 0); });
}
ssize_t preadv(int fd, const iovec* vectors, int count, off_t offset) { return preadv64(fd, vectors, count, offset); }

// Steps like others that reach no disk: a kill takes nothing from what the kernel has, and what a disk without power
// keeps is the model's to say. Half of a commit's time would be theirs. A descriptor that is none is refused (EBADF).
int fdatasync(int fd) {
  return changed(fd, sync_, 0, 0, 0, [&] { return ::fcntl(fd, F_GETFD) < 0 ? -1 : 0; });
}
int fsync(int fd) {
  return changed(fd, sync_, 1, 0, 0, [&] { return ::fcntl(fd, F_GETFD) < 0 ? -1 : 0; });
}
int ftruncate64(int fd, off_t bytes) noexcept {
  return changed(fd, resize, static_cast<std::uint64_t>(bytes), 0, 0,
                 [&] { return static_cast<int>(::syscall(SYS_ftruncate, fd, bytes)); });
}
int ftruncate(int fd, off_t bytes) noexcept { return ftruncate64(fd, bytes); }
int fallocate64(int fd, int mode, off_t offset, off_t bytes) {
  return changed(fd, allocate, static_cast<std::uint64_t>(mode), static_cast<std::uint64_t>(offset),
                 static_cast<std::uint64_t>(bytes),
                 [&] { return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, bytes)); });
}
int fallocate(int fd, int mode, off_t offset, off_t bytes) { return fallocate64(fd, mode, offset, bytes); }

int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  return renamed(from_at, from, to_at, to, flags);
}
int renameat(int from_at, const char* from, int to_at, const char* to) noexcept {
  return renamed(from_at, from, to_at, to, 0);
}
int rename(const char* from, const char* to) noexcept { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlinkat(int at, const char* name, int flags) noexcept { return removed(at, name, flags); }
int unlink(const char* name) noexcept { return removed(AT_FDCWD, name, 0); }
int rmdir(const char* name) noexcept { return removed(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char* name) noexcept {  // the C library calls neither of them by name; the C++ library calls this
  struct stat status;
  const bool folder = ::lstat(name, &status) == 0 && S_ISDIR(status.st_mode);
  return removed(AT_FDCWD, name, folder ? AT_REMOVEDIR : 0);
}
int mkdirat(int at, const char* name, mode_t mode) noexcept {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_mkdirat, at, name, mode)); };
  if (watched.empty() || inode_of(of_path(at, name)) != 0) return call();
  return entry_made(mkdir_, of_path(at, name), "", call);
}
int mkdir(const char* name, mode_t mode) noexcept { return mkdirat(AT_FDCWD, name, mode); }
int symlinkat(const char* target, int at, const char* name) noexcept {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_symlinkat, target, at, name)); };
  return watched.empty() ? call() : entry_made(link_, of_path(at, name), target, call);
}
int symlink(const char* target, const char* name) noexcept { return symlinkat(target, AT_FDCWD, name); }

int openat64(int at, const char* name, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_from(flags, list);
  va_end(list);
  return opened(at, name, flags, mode);
}
int openat(int at, const char* name, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_from(flags, list);
  va_end(list);
  return opened(at, name, flags, mode);
}
int open64(const char* name, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_from(flags, list);
  va_end(list);
  return opened(AT_FDCWD, name, flags, mode);
}
int open(const char* name, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_from(flags, list);
  va_end(list);
  return opened(AT_FDCWD, name, flags, mode);
}

// What a recording could not follow is written down as such: the replay refuses it.
ssize_t copy_file_range(int in, off_t* in_at, int out, off_t* out_at, size_t bytes, unsigned flags) {
  if (below(of_descriptor(out))) note(unknown);
  return ::syscall(SYS_copy_file_range, in, in_at, out, out_at, bytes, flags);
}
ssize_t sendfile64(int out, int in, off_t* at, size_t bytes) noexcept {
  if (below(of_descriptor(out))) note(unknown);
  return ::syscall(SYS_sendfile, out, in, at, bytes);
}
int linkat(int from_at, const char* from, int to_at, const char* to, int flags) noexcept {
  if (below(of_path(to_at, to))) note(unknown);
  return static_cast<int>(::syscall(SYS_linkat, from_at, from, to_at, to, flags));
}

int io_uring_submit(io_uring* ring) {
  // Not RTLD_NEXT: the library came with an extension module, which is not in the search order of a preloaded one.
  static const auto next = reinterpret_cast<int (*)(io_uring*)>(
      ::dlsym(::dlopen("liburing.so.2", RTLD_NOLOAD | RTLD_LAZY), "io_uring_submit"));
  if (!watched.empty()) {
    std::lock_guard lock(mutex);
    before();
  }
  const int done = next(ring);
  if (!watched.empty()) {
    std::lock_guard lock(mutex);
    before();
  }
  return done;
}
}
