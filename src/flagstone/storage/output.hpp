#pragma once
// Outputs appear whole or not at all (scheme A).
#include <cstdint>
#include <string>

namespace flagstone {

/// A new output that appears atomically (scheme A): everything is built in the hidden directory() beside `path`;
/// publish() syncs and renames; the destructor removes what was not published. Sweeps what dead writers left.
///
/// Beside the output lie `.<name>.flagstone-tmp-<id>` and its lock, `.<name>.flagstone-tmp-<id>.lock`, flocked while
/// the writer lives; after a crash the lock is free and the next Output of the same path removes both.
class Output {
 public:
  /// `replace`: an existing path is exchanged (renameat2) at publish. Throws StorageError(EEXIST) else; checks
  /// write permission and, with `bytes_needed`, free space (StorageError(ENOSPC)) before anything is written.
  Output(const std::string& path, bool replace, std::uint64_t bytes_needed = 0);
  ~Output();
  Output(const Output&) = delete;
  /// Does not exist yet: the caller makes a directory there or, for a single file, the file itself.
  const std::string& directory() const { return hidden_; }
  /// Once. Cost: one fdatasync for each file inside. Where it throws, the old version is untouched.
  void publish();

 private:
  void take_lock();
  void sweep() const;
  void exchange();

  std::string path_, parent_, hidden_;
  bool replace_ = false, published_ = false;
  int lock_ = -1;
  int process_ = 0;  // a forked child's copy removes nothing
};

}  // namespace flagstone
