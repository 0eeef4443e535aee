#pragma once
// A product that is subnormal takes a processor of x86 some hundred times as long as another: microcode makes it.
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace flagstone::kernel {

/// While it lives this thread makes zero of results below the smallest normal number; operands that are subnormal count
/// as they are. Other threads of BLAS, where a task has several, keep to gradual underflow. Nothing on other
/// processors, which are as fast with subnormals.
class SubnormalsFlushed {
 public:
#if defined(__SSE2__)
  SubnormalsFlushed() : before_(_mm_getcsr()) { _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON); }
  ~SubnormalsFlushed() { _mm_setcsr(before_); }
#else
  SubnormalsFlushed() {}
#endif
  SubnormalsFlushed(const SubnormalsFlushed&) = delete;

 private:
#if defined(__SSE2__)
  unsigned before_;
#endif
};

}  // namespace flagstone::kernel
