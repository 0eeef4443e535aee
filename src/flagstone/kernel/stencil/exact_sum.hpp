#pragma once
// Sums that do not depend on the order of their terms.
#include <array>
#include <cstdint>

namespace flagstone::kernel {

/// An exact sum of doubles in fixed point, 32 bits a digit, from the least subnormal number up (Kulisch's long
/// accumulator, with the spare bits of Neal 2015); rounded once, when it is asked for its value. So the value is the
/// same in whatever order terms and partial sums come. Cost: three integer additions a term, some 600 bytes.
class ExactSum {
 public:
  void add(double term);
  void add(const ExactSum& other);
  /// The nearest double, ties to even. NaN: a term was, or infinities of both signs were added.
  double value() const;

 private:
  static constexpr int digits = 68;  // 2046 + 52 bits of all doubles, and 64 for carries
  /// Digits but for the last one become 0 to 2^32 - 1.
  void carry();

  std::array<std::int64_t, digits> digit_{};
  std::int64_t pending_ = 0;  // terms since the last carry: each adds less than 2^32 to a digit
  bool nan_ = false, infinite_[2] = {false, false};
};

}  // namespace flagstone::kernel
