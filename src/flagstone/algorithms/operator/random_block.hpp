#pragma once
// Random numbers that are the same on every machine and with every library.
#include <cmath>
#include <cstdint>
#include <numbers>

namespace flagstone::spectral {

/// Standard normal numbers by Box-Muller over splitmix64.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : state_(seed) {}
  double operator()() {
    const double u = uniform(), v = uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }

 private:
  double uniform() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (static_cast<double>((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
  }
  std::uint64_t state_;
};

}  // namespace flagstone::spectral
