#pragma once
// Sums of float64 and what rounding takes from them.

namespace flagstone {

/// high + low := high + low + x, without the rounding error of the first addition (Knuth's two-sum). Loops that are
/// compiled once for each instruction set have their own: of an inline function one version serves all.
inline void add_to(double& high, double& low, double x) {
  const double sum = high + x, part = sum - high;
  low += (high - (sum - part)) + (x - part);
  high = sum;
}

}  // namespace flagstone
