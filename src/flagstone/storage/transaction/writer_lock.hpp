#pragma once
// One writer an array: a lock on a file in it.

#include "flagstone/storage/file/directory.hpp"

namespace flagstone {

/// The right to write into an array, kept by a lock on a file in it; who has it is written there until it is given
/// back, so that the name of one who died stays.
class WriterLock {
 public:
  /// StorageError(EBUSY) says who holds it and since when.
  explicit WriterLock(const Directory& directory);
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  /// Whether the last holder died with it: what it had taken and did not commit takes space still. Who holds the lock
  /// after it has this to do, and says so when it is done; else the next one has.
  bool inherited() const { return inherited_; }
  void settled() { inherited_ = false; }
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  int file_ = -1;
  int process_;  // that took it
  bool inherited_ = false;
};

}  // namespace flagstone
