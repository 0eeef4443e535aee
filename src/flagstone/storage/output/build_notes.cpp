#include "flagstone/storage/output/build_notes.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/output/remove_in_place.hpp"

namespace flagstone {
namespace {

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

}  // namespace

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
  if ((state == replacing || state == deleting) && path_exists(hidden)) {
    if (half_removed(path)) remove_in_place(path);
    if (state == replacing && !path_exists(path)) ::rename(hidden.c_str(), path.c_str());
  }
  remove_notes(hidden);  // first: without them nobody takes over half of the build
  remove_tree(hidden);
  remove_tree(old);
  ::unlink(lock_path.c_str());
  if (lock >= 0) ::close(lock);
}

}  // namespace flagstone
