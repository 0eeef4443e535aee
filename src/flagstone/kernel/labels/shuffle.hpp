#pragma once
// Places in a random order that is a function of a seed: splitmix64 (Steele, Lea, Flood 2014), a nanosecond a word,
// because a sweep draws one for every point.
#include <cstdint>
#include <utility>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

class Shuffle {
 public:
  explicit Shuffle(std::uint64_t seed) : state_(seed) {}
  /// Below n < 2³¹, by the upper bits of 32: off by n / 2³².
  Index below(Index n) { return static_cast<Index>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32); }
  template <class T>
  void operator()(T* places, Index n) {
    for (Index i = n - 1; i > 0; --i) std::swap(places[i], places[below(i + 1)]);
  }

 private:
  std::uint64_t next() {
    std::uint64_t word = state_ += 0x9E3779B97F4A7C15U;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9U;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBU;
    return word ^ (word >> 31);
  }
  std::uint64_t state_;
};

}  // namespace flagstone::kernel
