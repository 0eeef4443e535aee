#include "flagstone/storage/file/build_name.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string_view>

namespace flagstone {

namespace fs = std::filesystem;

namespace {

/// Where a path leads that begins at a descriptor (/proc/self/fd/7/zarr.json).
std::string resolved(const std::string& path) {
  const std::string descriptors = "/proc/self/fd/";
  if (!path.starts_with(descriptors)) return path;
  const std::size_t end = std::min(path.find('/', descriptors.size()), path.size());
  std::error_code ignored;
  return fs::read_symlink(path.substr(0, end), ignored).string() + path.substr(end);
}

bool is_hex(char digit) { return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f'); }

/// `results/<name>-<process>-<8 hex digits>.zarr`, of this process.
bool is_called_ours(const fs::path& place) {
  const std::string name = place.filename().string();
  const std::string process = "-" + std::to_string(::getpid()) + "-", ending = ".zarr";
  if (place.parent_path().filename() != results_folder || !name.ends_with(ending) ||
      name.size() < process.size() + 8 + ending.size())
    return false;
  const auto digits = name.end() - static_cast<std::ptrdiff_t>(ending.size()) - 8;
  return std::all_of(digits, digits + 8, is_hex) && std::string_view(name.begin(), digits).ends_with(process);
}

}  // namespace

std::string name_of_our_own() {
  char text[40];
  std::snprintf(text, sizeof text, "%d-%08x", static_cast<int>(::getpid()), std::random_device{}());
  return text;
}

std::string lock_of_result(const std::string& place) { return fs::path(place).replace_extension(lock_suffix).string(); }

bool goes_with_us(const std::string& path) {
  fs::path place;
  for (const fs::path& part : fs::path(resolved(path))) {
    place /= part;
    const std::string built = output_of(place.string()), result = built.empty() ? place.string() : built;
    if (is_called_ours(result) && path_exists(lock_of_result(result))) return true;
  }
  return false;
}

std::string from_root(const std::string& path) {
  std::error_code error;
  const fs::path found = path.empty() ? fs::path() : fs::absolute(path, error);
  return error || found.empty() ? path : found.string();
}

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
