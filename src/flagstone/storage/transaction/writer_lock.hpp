#pragma once
// One writer an array: a lock on a file in it.

#include "flagstone/storage/file/directory.hpp"

namespace flagstone {

/// The right to write into an array, kept by a lock on a file in it; who has it is written there.
class WriterLock {
 public:
  /// StorageError(EBUSY) says who holds it and since when.
  explicit WriterLock(const Directory& directory);
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  int file_ = -1;
  int process_;  // that took it
};

}  // namespace flagstone
