#include "flagstone/storage/output/leftovers.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/blake2b.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/output/build_notes.hpp"
#include "flagstone/storage/output/checkpoint.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

/// Whether somebody holds the lock, or may hold it.
bool is_live(const std::string& hidden) {
  const Descriptor lock(::open((hidden + lock_suffix).c_str(), O_RDWR | O_CLOEXEC));
  if (lock < 0) return errno != ENOENT;
  return ::flock(lock, LOCK_EX | LOCK_NB) != 0;  // held for a moment: a writer that comes now tries once more
}

std::string operation_of(const std::string& record) {
  try {
    return Json::parse(record).at("operation").get<std::string>();
  } catch (const JsonError&) {
    return "";
  }
}

Leftover described(const std::string& hidden) {
  Leftover found{output_of(hidden), hidden, "", record_of(hidden), bytes_on_disk(hidden), is_live(hidden)};
  if (path_exists(hidden + notes_suffix)) found.bytes += bytes_on_disk(hidden + notes_suffix);
  if (found.record.empty()) return found;
  found.notes = hidden + notes_suffix;
  found.operation = operation_of(found.record);
  const LastSave last = last_save(found.notes);
  found.done = last.done, found.saves = last.saves, found.process = last.process, found.age = last.age;
  return found;
}

/// Without links and dots; the end of it need not exist.
std::string real_path(const std::string& path) {
  std::error_code error;
  fs::path place = fs::absolute(path, error);
  if (!place.has_filename()) place = place.parent_path();  // a slash at the end
  const fs::path found = fs::weakly_canonical(place, error);
  return (error ? place : found).string();
}

fs::path register_in(const std::string& scratch) { return fs::path(scratch) / "resume"; }

}  // namespace

std::vector<Leftover> leftovers(const std::string& directory) {
  std::vector<Leftover> found;
  std::set<std::string> builds;
  std::error_code error;
  for (fs::recursive_directory_iterator at(real_path(directory), fs::directory_options::skip_permission_denied, error),
       end;
       !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!output_of(at->path().string()).empty()) {
      for (const std::string& build : hidden_siblings(hidden_prefix(output_of(at->path().string()))))
        builds.insert(build);
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
  for (const std::string& build : hidden_siblings(hidden_prefix(real_path(path)))) found.push_back(described(build));
  return found;
}

void register_output(const std::string& scratch, const std::string& path) {
  if (scratch.empty()) return;
  const std::string place = real_path(path);
  std::error_code ignored;
  fs::create_directories(register_in(scratch), ignored);
  Blake2b hash(12);
  hash.update(place);
  const Descriptor note(
      ::open((register_in(scratch) / hash.digest()).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (note >= 0 && ::write(note, place.data(), place.size()) < 0) return;
}

std::vector<Leftover> registered_outputs(const std::string& scratch) {
  std::vector<fs::path> notes;
  std::error_code ignored;
  for (fs::directory_iterator at(register_in(scratch), ignored), end; !ignored && at != end; at.increment(ignored))
    notes.push_back(at->path());
  std::sort(notes.begin(), notes.end());
  std::vector<Leftover> found;
  for (const fs::path& note : notes) {
    std::string path;
    try {
      path = read_text(note.string());
    } catch (const Error&) {
    }
    if (path.empty()) continue;  // it is being written, or cannot be read
    std::vector<Leftover> left = leftovers_of(path);
    std::erase_if(left, [](const Leftover& one) { return one.record.empty(); });
    if (left.empty()) fs::remove(note, ignored);
    found.insert(found.end(), left.begin(), left.end());
  }
  return found;
}

void sweep_leftovers(const std::string& path) {
  for (const std::string& hidden : hidden_siblings(hidden_prefix(path))) clear_leftover(hidden, path);
}

}  // namespace flagstone
