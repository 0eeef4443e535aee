#pragma once
// A directory that goes with its owner: for tests.
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace flagstone {

/// Made under $TMPDIR (else the system's), removed with all it holds by the destructor.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((std::filesystem::temp_directory_path() / "flagstone-test-XXXXXX").string()) {
    if (!::mkdtemp(path_.data())) throw std::runtime_error("cannot make " + path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Puts a file system of so many bytes on `directory`, seen by this process alone; false where that is not allowed.
/// Only in a child that ends.
inline bool mount_small(const std::string& directory, std::size_t bytes) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  const std::string size = "size=" + std::to_string(bytes);
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("flagstone-test", directory.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

}  // namespace flagstone
