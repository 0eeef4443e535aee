#pragma once
// Directories: held open, and synced.
#include <memory>
#include <string>

namespace flagstone {

/// An array's directory, held open: what is done through it is not done to another array that took its path.
class Directory {
 public:
  /// StorageError where it cannot be opened.
  explicit Directory(const std::string& path);
  ~Directory();
  Directory(const Directory&) = delete;
  /// The directory at a relative path, and null where there is none or a symbolic link is on the way.
  std::shared_ptr<const Directory> at(const std::string& relative) const;
  bool same(const Directory& other) const;
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  /// Of a file in it, for calls that take a path.
  std::string file(const std::string& name) const { return self() + "/" + name; }
  std::string self() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  Directory(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  int descriptor_;
  std::string path_;
};

void sync_directory(const std::string& path);

}  // namespace flagstone
