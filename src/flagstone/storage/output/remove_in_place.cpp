#include "flagstone/storage/output/remove_in_place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>

#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

constexpr const char* metadata_names[] = {"zarr.json", ".zarray", ".zgroup"};  // one makes a directory a store

}  // namespace

bool half_removed(const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  return std::none_of(std::begin(metadata_names), std::end(metadata_names),
                      [&](const char* name) { return path_exists(path + "/" + name); });
}

bool remove_in_place(const std::string& path) {
  bool begun = half_removed(path);
  const auto metadata_go = [&begun](const std::string& store) {
    bool gone = false;
    for (const char* name : metadata_names) {
      if (::unlink((store + "/" + name).c_str()) == 0)
        gone = begun = true;
      else if (errno != ENOENT)
        return false;
    }
    if (gone) sync_directory(store);  // before anything that they speak of goes
    return true;
  };
  try {
    if (!metadata_go(path)) return begun;
    for (const auto& inside : fs::recursive_directory_iterator(path))  // members can be opened by their own paths
      if (!inside.is_symlink() && inside.is_directory() && !metadata_go(inside.path().string())) return true;
  } catch (const std::exception&) {  // the next writer does the rest
    return true;
  }
  remove_tree(path);
  return true;
}

}  // namespace flagstone
