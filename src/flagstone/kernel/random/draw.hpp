#pragma once
// Random numbers of a distribution, each a function of the seed, the call and its place: neither tiles nor threads
// change one.
#include <string_view>
#include <vector>

#include "flagstone/base/shape.hpp"
#include "flagstone/kernel/random/philox.hpp"

namespace flagstone::kernel {

enum class Distribution : std::uint8_t { uniform, normal, exponential, integers, poisson, permutation, choice };

/// ShapeError for a name that there is none of.
Distribution distribution_from_name(std::string_view name);

/// A bijection of [0, n): an alternating Feistel network on the next power of two, walked along until it is inside; of
/// few numbers, which that could not bring into every order, a table (Fisher and Yates).
class Permutation {
 public:
  Permutation() = default;
  Permutation(const Stream& stream, std::uint64_t n);
  std::uint64_t operator()(std::uint64_t i) const;

 private:
  static constexpr int rounds = 8;
  std::uint64_t n_ = 0;
  int left_ = 0, right_ = 0;  // bits of the two halves
  std::array<std::uint64_t, rounds> keys_{};
  std::vector<std::uint32_t> table_;
};

struct Draw {
  Distribution distribution = Distribution::uniform;
  Stream stream;
  double shift = 0, scale = 1;      // uniform, normal, exponential: shift + scale x; poisson: the mean is `scale`
  std::uint64_t low = 0, span = 0;  // integers: low + [0, span); 0: all of 64 bits
  Permutation permutation;
  std::vector<double> cumulative;  // choice: of the probabilities, the last is 1
};

/// to := the numbers of `box` of an array of this shape; place: the index in C order. float32 and float64 for what is
/// continuous, integers of any size else.
void draw(const Draw& draw, const Shape& shape, const Box& box, const Tile& to);

}  // namespace flagstone::kernel
