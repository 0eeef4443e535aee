#pragma once
// Outputs appear whole or not at all (scheme A).
#include <cstdint>
#include <string>

namespace flagstone {

/// A new output that appears atomically (scheme A): everything is built in the hidden directory() beside `path`;
/// publish() syncs and renames; the destructor removes what was not published. Sweeps what dead writers left.
class Output {
 public:
  /// `replace`: an existing path is exchanged (renameat2) at publish. Throws StorageError(EEXIST) else; checks
  /// write permission and, with `bytes_needed`, free space (StorageError(ENOSPC)) before anything is written.
  Output(const std::string& path, bool replace, std::uint64_t bytes_needed = 0);
  ~Output();
  Output(const Output&) = delete;
  const std::string& directory() const { return hidden_; }  // for a single file output: directory() is that file's name
  void publish();

 private:
  std::string path_, hidden_;
  bool replace_ = false, published_ = false;
  int lock_ = -1;
};

}  // namespace flagstone
