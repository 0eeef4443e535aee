#pragma once
// The scratch directory: where it lies, results without a name, places of imported files.
#include <string>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/lock.hpp"

namespace flagstone {

/// A sentence that says all there is to say: neither the file nor the system's words are added to it.
struct ScratchError : StorageError {
  ScratchError(std::string sentence, int error_number, std::string file);
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  std::string sentence_;
};

/// The type of the file system that holds a path (its nearest parent that exists); empty where nobody says.
std::string file_system(const std::string& path);
/// $XDG_CACHE_HOME, else ~/.cache; empty where the user has no home.
std::string user_cache();
/// $FLAGSTONE_SCRATCH; else a directory of the user's cache ($XDG_CACHE_HOME, ~/.cache), else of /var/tmp: the first
/// that does not lie in memory. ScratchError (ENODEV) where both do.
std::string default_scratch();
/// Makes the directory where it is missing. ScratchError where that fails, or where it cannot be written.
void prepare_scratch(const std::string& directory);

/// `<scratch>/results/<name>-<process>-<id>.zarr`: a place for a result that nobody named. Beside it lies a `.lock`
/// that tells the others that its process lives. Makes the directory, and removes what dead processes left there.
class ScratchResult {
 public:
  ScratchResult(const std::string& scratch, const std::string& name);
  ~ScratchResult() { discard(); }
  ScratchResult(const ScratchResult&) = delete;
  const std::string& path() const { return path_; }
  /// Removes what lies at the place, and what was half built of it; once. In a forked child nothing: it is the
  /// parent's.
  void discard() noexcept;

 private:
  std::string path_;
  FileLock lock_;
  int process_;
};

/// `<scratch>/imports/<key>.zarr`, where the import of a foreign file, as it is now, belongs: the key is made of
/// device, inode, size and time. It stays until it is cleared.
std::string import_path(const std::string& scratch, const std::string& source);
/// Records where an import came from, for the listing.
void describe_import(const std::string& place, const std::string& source, double seconds);

}  // namespace flagstone
