#include "flagstone/storage/file/directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/descriptor.hpp"

namespace flagstone {

namespace fs = std::filesystem;

Directory::Directory(const std::string& path)
    : Directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC), path) {
  if (descriptor_ < 0) throw StorageError("storage: cannot open the array", errno, path);
}

Directory::~Directory() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::shared_ptr<const Directory> Directory::at(const std::string& relative) const {
  if (relative.empty() || fs::path(relative).is_absolute()) return nullptr;
  int found = ::openat(descriptor_, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (const fs::path& part : fs::path(relative)) {
    const Descriptor before(found);
    found = ::openat(before, part.empty() ? "." : part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (found < 0) return nullptr;
  }
  return std::shared_ptr<const Directory>(
      new Directory(found, (fs::path(path_) / relative).lexically_normal().string()));
}

bool Directory::same(const Directory& other) const {
  struct stat one, two;
  return ::fstat(descriptor_, &one) == 0 && ::fstat(other.descriptor_, &two) == 0 && one.st_ino == two.st_ino &&
         one.st_dev == two.st_dev;
}

void sync_directory(const std::string& path) {
  if (goes_with_us(path)) return;
  const int descriptor = without_interruption([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) throw StorageError("storage: cannot open the directory", errno, path);
  const int result = without_interruption([&] { return ::fsync(descriptor); });
  const int number = errno;
  ::close(descriptor);
  // Some network file systems cannot sync a directory and say so with EINVAL; there is nothing more to do there.
  if (result != 0 && number != EINVAL) throw StorageError("storage: cannot sync the directory", number, path);
}

}  // namespace flagstone
