#pragma once
// Locks on files: they say that a process lives.
#include <string>

namespace flagstone {

/// An open file with its lock (flock), which others see until it is closed: at the latest when the process ends,
/// however it ends. Where the file system has no locks, file_locked() takes every file for one whose process lives.
class FileLock {
 public:
  /// Opens the file, makes it where it is missing, and waits for the lock. The file has this name when it is locked: it
  /// is made again where somebody removed it between the two. StorageError where it cannot be made.
  static FileLock make(const std::string& path, unsigned mode = 0666);
  /// The lock of a file that is there, without waiting; none where somebody else has it, or where there is no file.
  static FileLock take(const std::string& path);
  /// The lock of a file that is there, which may be read only, once nobody else has it; none where there is no file.
  static FileLock wait(const std::string& path);

  /// A lock that several have at once, which keeps take() and make() of others out; the file is made where it is
  /// missing, and has this name when it is locked. None where it cannot be made.
  static FileLock share(const std::string& path);

  FileLock() = default;
  FileLock(FileLock&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock() { close(); }

  explicit operator bool() const { return file_ >= 0; }
  int descriptor() const { return file_; }
  /// Whether the file still has this name.
  bool is_at(const std::string& path) const;
  /// Gives the lock back, unless a forked child has the file open too.
  void close() noexcept;

 private:
  explicit FileLock(int file) : file_(file) {}
  int file_ = -1;
};

/// Whether a process that lives holds the lock of a file; no where the file cannot be opened.
bool file_locked(const std::string& path);

/// For tests: called after the file was opened and before it is locked (not where take() locks it).
inline void (*before_lock)(const std::string& path) = nullptr;

}  // namespace flagstone
