#include "flagstone/storage/scratch/names.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "flagstone/storage/file/build_name.hpp"

namespace flagstone::scratch_names {

namespace fs = std::filesystem;

std::string key_of(const struct stat& status) {
  const auto nanoseconds = static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                           static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
  char key[80];
  std::snprintf(key, sizeof key, "%jx-%jx-%jx-%jx", static_cast<std::uintmax_t>(status.st_dev),
                static_cast<std::uintmax_t>(status.st_ino), static_cast<std::uintmax_t>(status.st_size),
                static_cast<std::uintmax_t>(nanoseconds));
  return key;
}

std::vector<std::string> ending(const std::string& folder, const std::string& suffix) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().ends_with(suffix)) found.push_back(at->path().string());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> half_built(const std::string& folder) {
  std::vector<std::string> found = ending(folder, "");
  std::erase_if(found, [](const std::string& path) {
    std::error_code ignored;
    return entry_of(path) == fs::path(path).filename().string() || !fs::is_directory(path, ignored);
  });
  return found;
}

std::string entry_of(const std::string& place) {
  const std::string name = fs::path(place).filename().string();
  const std::size_t at = name.starts_with('.') ? name.find(build_mark, 1) : std::string::npos;
  return at == std::string::npos ? name : name.substr(1, at - 1);
}

std::uint64_t disk_bytes(const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return 0;
  if (!S_ISDIR(status.st_mode)) return static_cast<std::uint64_t>(status.st_blocks) * 512;
  std::uint64_t total = 0;
  for (const std::string& inside : ending(path, "")) total += disk_bytes(inside);
  return total;
}

}  // namespace flagstone::scratch_names
