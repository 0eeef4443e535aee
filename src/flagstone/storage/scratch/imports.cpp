#include "flagstone/storage/scratch/imports.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/scratch/names.hpp"
#include "flagstone/storage/scratch/scratch.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

std::string beside(const std::string& place, const char* suffix) {
  return fs::path(place).replace_extension(suffix).string();
}

/// Whether the file that an import was made of is not there, or not as it was. No where nobody knows the file.
bool source_changed(const std::string& place) {
  std::string source;
  try {
    source = Json::parse(read_text(beside(place, ".json"), 1 << 20)).at("source").get<std::string>();
  } catch (const std::exception&) {
    return false;
  }
  struct stat status;
  if (::stat(source.c_str(), &status) != 0) return errno == ENOENT || errno == ENOTDIR;
  const std::string name = fs::path(place).stem().string(), key = scratch_names::key_of(status);
  return name != key && !name.starts_with(key + "-");  // behind the key: which part of the file
}

/// Of older versions, which noted no use, the time when it was made.
bool unused_for(const std::string& place, std::chrono::seconds longest) {
  struct stat status;
  for (const std::string& file : {beside(place, ".used"), beside(place, ".json"), place})
    if (::stat(file.c_str(), &status) == 0) return std::time(nullptr) - status.st_mtim.tv_sec > longest.count();
  return false;
}

ino_t number_of(const std::string& place) {
  struct stat status;
  return ::lstat(place.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// Keeps use_import() of others out, also where an older version noted no use; none where somebody uses the import.
FileLock lock_to_sweep(const std::string& used) {
  if (!path_exists(used)) const Descriptor made(::open(used.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  return FileLock::take(used);
}

}  // namespace

FileLock use_import(const std::string& place) {
  FileLock lock = FileLock::share(beside(place, ".used"));
  if (lock && ::futimens(lock.descriptor(), nullptr) != 0) {
  }  // of another user: they count its age
  return lock;
}

std::uint64_t sweep_imports(const std::string& scratch, std::chrono::seconds unused) {
  std::uint64_t freed = 0;
  for (const std::string& place : scratch_names::ending((fs::path(scratch) / "imports").string(), ".zarr")) {
    const ino_t found = number_of(place);
    if (!source_changed(place) && !unused_for(place, unused)) continue;
    const std::string used = beside(place, ".used");
    const FileLock lock = lock_to_sweep(used);
    // Whoever had the lock may have swept it, and somebody imported it anew since.
    if (!lock || !lock.is_at(used) || number_of(place) != found) continue;
    freed += scratch_names::disk_bytes(place);
    remove_tree(place);
    ::unlink(beside(place, ".json").c_str());
    ::unlink(used.c_str());
  }
  return freed;
}

}  // namespace flagstone
