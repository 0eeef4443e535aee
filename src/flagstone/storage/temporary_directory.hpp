#pragma once
// A directory that goes with its owner: for tests.
#include <stdlib.h>

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

}  // namespace flagstone
