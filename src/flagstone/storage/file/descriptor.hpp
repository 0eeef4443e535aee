#pragma once
// A file descriptor that is closed where its scope ends.
#include <unistd.h>

namespace flagstone {

/// Stands for the number that system calls take; a negative one (the call that opens failed) is not closed.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }

 private:
  const int number_;
};

}  // namespace flagstone
