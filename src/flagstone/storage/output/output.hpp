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
///
/// A writer that can go on where a dead one stopped gives a `record` (what is computed, of what, how). It lies in
/// `.<name>.flagstone-tmp-<id>.notes/record.json`, beside what is built, so that it never appears in the result; the
/// next Output of the same path with the same record, to the byte, takes over the build, its lock and its notes.
class Output {
 public:
  /// `replace`: an existing path is exchanged (renameat2) at publish. Throws StorageError(EEXIST) else; checks
  /// write permission and, with `bytes_needed`, free space (StorageError(ENOSPC)) before anything is written; what an
  /// adopted build holds already is not needed again.
  Output(const std::string& path, bool replace, std::uint64_t bytes_needed = 0, const std::string& record = {});
  ~Output();
  Output(const Output&) = delete;
  /// Does not exist yet, unless it was adopted: the caller makes a directory there or, for a single file, the file.
  const std::string& directory() const { return hidden_; }
  /// Whether directory() is what a dead writer with the same record had built. None of it need be on the disk after a
  /// power failure, except what that writer synced: progress is noted after a sync of what it speaks of.
  bool adopted() const { return adopted_; }
  /// A directory for whatever the writer needs to go on; it exists where there is a record, and goes with the build.
  std::string notes() const;
  /// The destructor leaves build and notes where they are, and gives the lock back: after an error that passes.
  void leave() { leave_ = true; }
  /// Once. Cost: one fdatasync for each file inside. Where it throws, the old version is untouched, unless it says
  /// otherwise.
  void publish();
  /// Removes what `path` names, a Zarr store whose directory cannot be renamed, instead of replacing it. Nothing was
  /// built.
  void remove_replaced();

 private:
  void take_lock();
  bool adopt(const std::string& hidden, const std::string& record);
  void check_space(std::uint64_t bytes_needed) const;
  void drop() noexcept;
  void exchange();
  void announce(char state);
  void replace_in_place();
  void sync_published();

  std::string path_, parent_, hidden_;
  bool replace_ = false, published_ = false, adopted_ = false, leave_ = false, noted_ = false;
  int lock_ = -1;
  int process_ = 0;  // a forked child's copy removes nothing
};

}  // namespace flagstone
