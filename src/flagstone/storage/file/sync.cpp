#include "flagstone/storage/file/sync.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/file.hpp"

namespace flagstone {

namespace fs = std::filesystem;

void sync_file(int descriptor, const std::string& path, const char* what) {
  if (goes_with_us(path)) return;
  if (without_interruption([&] { return ::fdatasync(descriptor); }) != 0) throw StorageError(what, errno, path);
}

void sync_tree(const std::string& path) {
  if (goes_with_us(path)) return;
  const auto sync_entry = [](const fs::path& entry) {
    const auto type = fs::symlink_status(entry).type();
    if (type == fs::file_type::directory) sync_directory(entry.string());
    if (type == fs::file_type::regular) File::open(entry.string(), File::Mode::read)->sync();
  };
  try {
    std::vector<fs::path> entries{path};
    if (fs::is_directory(path))
      for (const auto& entry : fs::recursive_directory_iterator(path)) entries.push_back(entry.path());
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) sync_entry(*entry);
  } catch (const fs::filesystem_error& error) {
    throw StorageError("output: cannot look through what was built", error.code().value(),
                       error.path1().empty() ? path : error.path1().string());
  }
}

}  // namespace flagstone
