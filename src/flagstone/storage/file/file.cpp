#include "flagstone/storage/file/file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/block_size.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/sync.hpp"

namespace flagstone {
namespace {

/// A second descriptor of the same file through /proc, so that a rename in between cannot give another file.
int open_direct(int descriptor, int access) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return without_interruption([&] { return ::open(link.c_str(), access | O_DIRECT | O_CLOEXEC); });
}

}  // namespace

int open_regular(int directory, const char* name, int flags, const std::string& said, unsigned mode) {
  const int file =
      without_interruption([&] { return ::openat(directory, name, flags | O_NONBLOCK | O_CLOEXEC, mode); });
  struct stat status;
  const bool strange = file < 0 ? errno == ENXIO  // a socket, or a pipe that nobody reads
                                : ::fstat(file, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  if (strange) {
    if (file >= 0) ::close(file);
    throw FormatError("open: " + said +
                      " is a pipe, a socket or a device, and a file is needed; put the file in its place.");
  }
  if (file >= 0)
    ::fcntl(file, F_SETFL, flags);  // io_uring takes O_NONBLOCK to mean that a request may fail with EAGAIN
  return file;
}

int open_regular(const std::string& path, int flags, unsigned mode) {
  return open_regular(AT_FDCWD, path.c_str(), flags, path, mode);
}

std::shared_ptr<File> File::open(const std::string& path, Mode mode) {
  const int access = mode == Mode::read ? O_RDONLY : O_RDWR;
  const int flags = access | (mode == Mode::create ? O_CREAT | O_EXCL : 0);
  std::shared_ptr<File> file(new File);
  file->path_ = path;
  file->buffered_ = open_regular(path, flags);
  if (file->buffered_ < 0) {
    const char* verbs[] = {"storage: cannot open for reading", "storage: cannot open for writing",
                           "storage: cannot create"};
    throw StorageError(verbs[static_cast<int>(mode)], errno, path);
  }
  struct stat status;
  if (::fstat(file->buffered_, &status) == 0 && S_ISDIR(status.st_mode))
    throw StorageError("storage: a file is needed", EISDIR, path);
  file->direct_ = open_direct(file->buffered_, access);
  file->block_ = direct_block_of(file->buffered_);
  return file;
}

std::shared_ptr<File> File::temporary(const std::string& directory) {
  std::shared_ptr<File> file(new File);
  file->path_ = directory + "/(temporary)";
  file->buffered_ =
      without_interruption([&] { return ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); });
  // Some file systems have no O_TMPFILE, and say it with one of these.
  if (file->buffered_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = directory + "/.flagstone-XXXXXX";
    file->buffered_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (file->buffered_ >= 0) ::unlink(name.c_str());
  }
  if (file->buffered_ < 0) throw StorageError("storage: cannot make a temporary file in", errno, directory);
  file->direct_ = open_direct(file->buffered_, O_RDWR);
  return file;
}

File::~File() {
  if (direct_ >= 0) ::close(direct_);
  if (buffered_ >= 0) ::close(buffered_);
}

std::uint64_t File::size() const {
  struct stat status;
  if (::fstat(buffered_, &status) != 0) throw StorageError("storage: cannot stat", errno, path_);
  return static_cast<std::uint64_t>(status.st_size);
}

bool File::removed() const {
  struct stat status;
  return ::fstat(buffered_, &status) == 0 && status.st_nlink == 0;
}

bool File::allocate(std::uint64_t bytes) {
  if (bytes == 0) return true;
  // Checked first: ext4 fills the disk to its last block before fallocate says ENOSPC.
  struct stat status;
  struct statvfs space;
  if (::fstat(buffered_, &status) == 0 && ::fstatvfs(buffered_, &space) == 0) {
    const std::uint64_t held = static_cast<std::uint64_t>(status.st_blocks) * 512;
    const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    if (bytes > held && bytes - held > free)
      throw StorageError("storage: cannot reserve " + format_bytes(bytes) + " (" + format_bytes(free) +
                             " are free); free some space or write elsewhere",
                         ENOSPC, path_, bytes);
  }
  if (without_interruption([&] { return ::fallocate(buffered_, 0, 0, static_cast<off_t>(bytes)); }) == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS)
    throw StorageError("storage: cannot reserve " + format_bytes(bytes), errno, path_, bytes);
  if (size() < bytes) truncate(bytes);
  return false;
}

void File::truncate(std::uint64_t bytes) {
  if (without_interruption([&] { return ::ftruncate(buffered_, static_cast<off_t>(bytes)); }) != 0)
    throw StorageError("storage: cannot set the length to " + std::to_string(bytes) + " bytes", errno, path_, bytes);
}

void File::sync() { sync_file(buffered_, path_); }

void read_exactly(const File& file, void* to, std::size_t bytes, std::uint64_t offset) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file.buffered(), at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw StorageError("storage: cannot read", errno, file.path(), offset);
    if (got == 0)
      throw FormatError("open: " + file.path() + ": it ends at byte " + std::to_string(offset) +
                        "; the file is truncated, write or copy it again.");
    at += got, bytes -= static_cast<std::size_t>(got), offset += static_cast<std::uint64_t>(got);
  }
}

void write_exactly(int descriptor, const File& file, const void* from, std::size_t bytes, std::uint64_t offset) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(descriptor, at, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw StorageError("storage: cannot write", put < 0 ? errno : EIO, file.path(), offset);
    at += put, bytes -= static_cast<std::size_t>(put), offset += static_cast<std::uint64_t>(put);
  }
}

bool rename_to_new(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return false;
  struct stat status;
  if (::lstat(to.c_str(), &status) == 0) {
    errno = EEXIST;
    return false;
  }
  return ::rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace flagstone
