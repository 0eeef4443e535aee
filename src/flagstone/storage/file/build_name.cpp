#include "flagstone/storage/file/build_name.hpp"

#include <sys/stat.h>

#include <filesystem>

namespace flagstone {

namespace fs = std::filesystem;

bool path_exists(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0;
}

void remove_tree(const std::string& path) {
  std::error_code ignored;  // what stays is hidden, and swept next time
  fs::remove_all(path, ignored);
}

std::uint64_t bytes_on_disk(const std::string& path) {
  std::uint64_t blocks = 0;
  const auto add = [&blocks](const fs::path& entry) {
    struct stat status;
    if (::lstat(entry.c_str(), &status) == 0) blocks += static_cast<std::uint64_t>(status.st_blocks);
  };
  add(path);
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(path, ignored), end; !ignored && at != end; at.increment(ignored))
    add(at->path());
  return 512 * blocks;
}

std::string hidden_prefix(const std::string& path) {
  const fs::path place(path);
  return (place.parent_path() / ("." + place.filename().string() + build_mark)).string();
}

std::set<std::string> hidden_siblings(const std::string& prefix) {
  std::set<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(prefix).parent_path(), ignored)) {
    std::string name = entry.path().string();
    if (!name.starts_with(prefix)) continue;
    for (const std::string& suffix : {lock_suffix, old_suffix, notes_suffix})
      if (name.size() > suffix.size() && name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    found.insert(name);
  }
  return found;
}

std::string output_of(const std::string& path) {
  const fs::path hidden(path);
  const std::string name = hidden.filename().string();
  const auto at = name.rfind(build_mark);
  if (name.size() < 2 || name[0] != '.' || at == std::string::npos || at < 2) return "";
  return (hidden.parent_path() / name.substr(1, at - 1)).string();
}

}  // namespace flagstone
