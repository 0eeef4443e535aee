#include "flagstone/storage/output/leftovers.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

const std::string mark = ".flagstone-tmp-";

/// The path of the output that a hidden build belongs to; empty for other names.
std::string output_of(const fs::path& hidden) {
  const std::string name = hidden.filename().string();
  const auto at = name.rfind(mark);
  if (name.size() < 2 || name[0] != '.' || at == std::string::npos || at < 2) return "";
  return (hidden.parent_path() / name.substr(1, at - 1)).string();
}

/// Whether somebody holds the lock, or may hold it.
bool is_live(const std::string& hidden) {
  const Descriptor lock(::open((hidden + lock_suffix).c_str(), O_RDWR | O_CLOEXEC));
  if (lock < 0) return errno != ENOENT;
  return ::flock(lock, LOCK_EX | LOCK_NB) != 0;  // held for a moment: a writer that comes now tries once more
}

std::string number_of(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 ? std::to_string(status.st_ino) : "";
}

std::string text_of(const std::string& path) {
  try {
    return read_text(path, std::size_t{1} << 26);
  } catch (const std::exception&) {
    return "";
  }
}

Leftover described(const std::string& hidden) {
  Leftover found{output_of(hidden), hidden, "", record_of(hidden), bytes_on_disk(hidden), is_live(hidden)};
  if (!found.record.empty()) found.notes = hidden + notes_suffix;
  if (path_exists(hidden + notes_suffix)) found.bytes += bytes_on_disk(hidden + notes_suffix);
  return found;
}

}  // namespace

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
  return (place.parent_path() / ("." + place.filename().string() + mark)).string();
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

std::string record_of(const std::string& hidden) {
  const std::string notes = hidden + notes_suffix, noted = text_of(notes + "/build");
  if (!path_exists(hidden) || (!noted.empty() && noted != number_of(hidden))) return "";
  return text_of(notes + "/record.json");
}

void remove_notes(const std::string& hidden) {
  const std::string notes = hidden + notes_suffix;
  if (::unlink((notes + "/record.json").c_str()) == 0) {
    try {
      sync_directory(notes);
    } catch (const StorageError&) {
      return;  // rather all of the notes than a record without what says to which build it belongs
    }
  }
  remove_tree(notes);
}

void note_build(const std::string& hidden) { write_text(hidden + notes_suffix + "/build", number_of(hidden)); }

/// Finished where its writer died between the two steps of a publish, removed otherwise.
void clear_leftover(const std::string& hidden, const std::string& path) {
  const std::string lock_path = hidden + lock_suffix, old = hidden + old_suffix;
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0 && errno != ENOENT) return;
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return;  // its writer lives, or the file system cannot tell
  }
  char state = 0;
  if (lock >= 0 && ::pread(lock, &state, 1, 0) == 1 && state == publishing && !path_exists(path))
    ::rename((path_exists(hidden) ? hidden : old).c_str(), path.c_str());
  remove_notes(hidden);  // first: without them nobody takes over half of the build
  remove_tree(hidden);
  remove_tree(old);
  ::unlink(lock_path.c_str());
  if (lock >= 0) ::close(lock);
}

std::vector<Leftover> leftovers(const std::string& directory) {
  std::vector<Leftover> found;
  std::set<std::string> builds;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!output_of(at->path()).empty()) {
      for (const std::string& build : hidden_siblings(hidden_prefix(output_of(at->path())))) builds.insert(build);
      at.disable_recursion_pending();
    } else if (at->is_symlink(ignored) || (at->is_directory(ignored) && is_zarr_array(at->path().string()))) {
      at.disable_recursion_pending();
    }
  }
  for (const std::string& build : builds) found.push_back(described(build));
  return found;
}

std::vector<Leftover> leftovers_of(const std::string& path) {
  std::vector<Leftover> found;
  for (const std::string& build : hidden_siblings(hidden_prefix(path))) found.push_back(described(build));
  return found;
}

void sweep_leftovers(const std::string& path) {
  for (const std::string& hidden : hidden_siblings(hidden_prefix(path))) clear_leftover(hidden, path);
}

}  // namespace flagstone
