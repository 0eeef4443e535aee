#include "flagstone/storage/file/stamp.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/blake2b.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t digest_bytes = 16;

class Stamp {
 public:
  /// Of one file or link; `name` from the top.
  void add(const std::string& name, const struct stat& status, bool verified) {
    std::string told = name + '\0' + std::to_string(status.st_ino) + '\0' + std::to_string(status.st_size) + '\0' +
                       std::to_string(nanoseconds(status.st_mtim));
    if (!verified) told += '\0' + std::to_string(nanoseconds(status.st_ctim));
    hash_.update(told + "\n");
  }

  /// Files first, then the directories in it, by name. An array's directories follow it: `verified`.
  void add_directory(const fs::path& folder, const fs::path& top, bool verified) {
    std::error_code ignored;
    verified = verified || fs::exists(folder / "__flagstone" / "chunks.bin", ignored);
    std::vector<std::string> names, folders;
    for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
      std::error_code unknown;
      const std::string name = at->path().filename().string();
      const bool directory = at->is_directory(unknown);
      if (!directory) names.push_back(name);
      if (directory && name != "__flagstone") folders.push_back(name);
    }
    std::sort(names.begin(), names.end());
    std::sort(folders.begin(), folders.end());
    for (const std::string& name : names) {
      struct stat status;
      const fs::path place = folder / name;
      if (::lstat(place.c_str(), &status) != 0)
        throw StorageError("storage: cannot look at the file", errno, place.string());
      add(place.lexically_relative(top).string(), status, verified);
    }
    for (const std::string& name : folders)  // links to directories are not followed
      if (!fs::is_symlink(folder / name, ignored)) add_directory(folder / name, top, verified);
  }

  std::string digest() { return hash_.digest(); }

 private:
  static std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

  Blake2b hash_{digest_bytes};
};

}  // namespace

std::string stored_stamp(const std::string& path) {
  fs::path place = path;
  std::error_code ignored;
  while (!fs::exists(place, ignored) && place.has_parent_path() && place.parent_path() != place)
    place = place.parent_path();
  struct stat status;
  if (::stat(place.c_str(), &status) != 0)
    throw StorageError("storage: cannot look at the file", errno, place.string());
  Stamp stamp;
  if (S_ISDIR(status.st_mode))
    stamp.add_directory(place, place, false);
  else
    stamp.add("", status, false);
  return stamp.digest();
}

}  // namespace flagstone
