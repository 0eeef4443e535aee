#pragma once
// A file descriptor that is closed where its scope ends.
#include <unistd.h>

#include <cerrno>

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

/// A system call, again where a signal ended it.
template <class Call>
int without_interruption(Call&& call) {
  int result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace flagstone
