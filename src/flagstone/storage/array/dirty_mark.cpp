#include "flagstone/storage/array/dirty_mark.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/file.hpp"

namespace flagstone {
namespace {

/// Inside a Zarr array's directory; beside a single file.
std::string dirty_mark(const Array& array) {
  const std::filesystem::path path(array.path());
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return (path / "__flagstone" / "dirty").string();
  return (path.parent_path() / ("." + path.filename().string() + ".flagstone-dirty")).string();
}

}  // namespace

void mark_dirty(const Array& array, bool dirty) {
  if (array.path().empty()) return;
  const std::filesystem::path mark = dirty_mark(array);
  if (!dirty) {
    if (::unlink(mark.c_str()) != 0 && errno != ENOENT)
      throw StorageError("flush: cannot remove the dirty mark", errno, mark.string());
    return;
  }
  std::error_code error;
  if (!mark.parent_path().empty()) std::filesystem::create_directories(mark.parent_path(), error);
  const int descriptor = open_regular(mark.string(), O_WRONLY | O_CREAT);
  if (descriptor < 0) throw StorageError("write: cannot mark the array as dirty", errno, mark.string());
  ::close(descriptor);
  sync_directory(mark.parent_path().empty() ? "." : mark.parent_path().string());
}

bool is_dirty(const Array& array) {
  struct stat status;
  return !array.path().empty() && ::stat(dirty_mark(array).c_str(), &status) == 0;
}

}  // namespace flagstone
