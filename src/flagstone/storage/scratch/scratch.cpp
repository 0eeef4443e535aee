#include "flagstone/storage/scratch/scratch.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/output/leftovers.hpp"
#include "flagstone/storage/scratch/names.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

bool lies_in_memory(const std::string& path) {
  const std::string kind = file_system(path);
  return kind == "tmpfs" || kind == "ramfs" || kind == "devtmpfs";
}

/// Empty where the user has none.
std::string home() {
  if (const char* given = std::getenv("HOME"); given && *given) return given;
  const passwd* user = ::getpwuid(::getuid());
  return user && user->pw_dir ? user->pw_dir : "";
}

}  // namespace

std::string user_cache() {
  if (const char* given = std::getenv("XDG_CACHE_HOME"); given && *given) return given;
  const std::string place = home();
  return place.empty() ? "" : (fs::path(place) / ".cache").string();
}

ScratchError::ScratchError(std::string sentence, int error_number, std::string file)
    : StorageError("", error_number, std::move(file)), sentence_(std::move(sentence)) {}

std::string file_system(const std::string& path) {
  std::string place = path, target;
  while (target.empty()) {  // a path that is not there lies where its parent does
    char* found = ::realpath(place.empty() ? "." : place.c_str(), nullptr);
    if (found) target = found;
    std::free(found);
    if (place.empty() || place == "/") break;
    const std::size_t slash = place.find_last_of('/');
    place = slash == std::string::npos ? "" : slash == 0 ? "/" : place.substr(0, slash);
  }
  // Line by line with C's means: the streams of C++ keep 0.8 MB of the process resident, which a limit would count.
  std::FILE* mounts = std::fopen("/proc/self/mounts", "re");
  std::string best, kind;
  char* line = nullptr;
  for (std::size_t room = 0; mounts && ::getline(&line, &room, mounts) >= 0;) {
    const char* separator = " ";
    char* rest = nullptr;
    ::strtok_r(line, separator, &rest);  // the device
    const char *at = ::strtok_r(nullptr, separator, &rest), *type = ::strtok_r(nullptr, separator, &rest);
    if (!at || !type) continue;
    std::string mount = at;
    for (std::size_t space; (space = mount.find("\\040")) != std::string::npos;) mount.erase(space, 3)[space] = ' ';
    const std::string below = mount.ends_with('/') ? mount : mount + "/";
    if ((target == mount || target.starts_with(below)) && mount.size() >= best.size()) best = mount, kind = type;
  }
  std::free(line);
  if (mounts) std::fclose(mounts);
  return kind;
}

std::string default_scratch() {
  if (const char* given = std::getenv("FLAGSTONE_SCRATCH"); given && *given) return from_root(given);
  const std::string cache = user_cache();
  const std::string own = cache.empty() ? "" : (fs::path(cache) / "flagstone" / "scratch").string();
  for (const std::string& place : {own, "/var/tmp/flagstone-" + std::to_string(::getuid()) + "/scratch"})
    if (!place.empty() && !lies_in_memory(place)) return from_root(place);
  throw ScratchError(
      "scratch: the user's cache directory and /var/tmp both live in memory (tmpfs); name a directory on a disk with "
      "FLAGSTONE_SCRATCH.",
      ENODEV, cache);
}

void prepare_scratch(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (std::error_code ignored; fs::exists(directory, ignored) && !fs::is_directory(directory, ignored))
    error = std::make_error_code(std::errc::file_exists);
  if (error)
    throw ScratchError("scratch: cannot create '" + directory + "' (" + std::strerror(error.value()) +
                           "); name another place with FLAGSTONE_SCRATCH.",
                       error.value(), directory);
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    throw ScratchError("scratch: '" + directory + "' cannot be written; name another place with FLAGSTONE_SCRATCH.",
                       EACCES, directory);
}

// Results -------------------------------------------------------------------------------------------------------------

namespace {

/// What lies at a place of results, and what was half built of it.
void remove_result(const std::string& place) {
  remove_tree(place);
  sweep_leftovers(place);
}

/// Removes what dead processes left: their lock can be taken.
void sweep(const fs::path& results) {
  for (const std::string& lock : scratch_names::ending(results.string(), lock_suffix))
    if (const FileLock taken = FileLock::take(lock)) {
      remove_result(fs::path(lock).replace_extension(".zarr").string());
      ::unlink(lock.c_str());
    }
}

}  // namespace

ScratchResult::ScratchResult(const std::string& scratch, const std::string& name) : process_(::getpid()) {
  prepare_scratch(scratch);
  const fs::path results = fs::path(scratch) / results_folder;
  for (;;) {
    if (::mkdir(results.c_str(), 0777) != 0 && errno != EEXIST)
      throw StorageError("scratch: cannot make the directory", errno, results.string());
    sweep(results);
    path_ = (results / (name + "-" + name_of_our_own() + ".zarr")).string();
    try {
      lock_ = FileLock::make(lock_of_result(path_), 0600);
      return;
    } catch (const StorageError& error) {
      // Another process found the folder empty and removed it; a link stays, and leads nowhere.
      if (std::error_code ignored; error.number != ENOENT || fs::is_symlink(results, ignored)) throw;
    }
  }
}

void ScratchResult::discard() noexcept {
  if (!lock_) return;
  lock_.close();
  if (process_ != ::getpid()) return;
  try {
    remove_result(path_);
  } catch (const std::exception&) {  // swept by the next process
    return;
  }
  ::unlink(lock_of_result(path_).c_str());
  ::rmdir(fs::path(path_).parent_path().c_str());  // only when it is empty
}

// Imports -------------------------------------------------------------------------------------------------------------

std::string import_path(const std::string& scratch, const std::string& source) {
  struct stat status;
  if (::stat(source.c_str(), &status) != 0) throw StorageError("open: cannot look at the file", errno, source);
  prepare_scratch(scratch);
  const fs::path folder = fs::path(scratch) / "imports";
  ::mkdir(folder.c_str(), 0777);
  return (folder / (scratch_names::key_of(status) + ".zarr")).string();
}

void describe_import(const std::string& place, const std::string& source, double seconds) {
  const std::string text = "{\"source\": " + Json(fs::absolute(source).string()).dump_ascii() +
                           ", \"seconds\": " + Json(std::round(seconds * 1000) / 1000).dump() + "}";
  write_text(fs::path(place).replace_extension(".json").string(), text);
}

}  // namespace flagstone
