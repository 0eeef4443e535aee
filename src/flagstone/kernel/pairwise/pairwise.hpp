#pragma once
// Kernel functions of two sets of points, for tiles of kernel matrices.
#include <string_view>
#include <vector>

#include "flagstone/base/shape.hpp"
#include "flagstone/kernel/pairwise/pair_loops.hpp"

namespace flagstone::kernel {

/// k(x, y) of points with real coordinates. Distances are of (x - centre) / length.
///   rbf         exp(-gamma r²), gamma = 1/2 for exp(-r²/2)
///   matern12    exp(-r)
///   matern32    (1 + √3 r) exp(-√3 r)
///   matern52    (1 + √5 r + 5 r²/3) exp(-√5 r)
///   linear      xᵀy
///   polynomial  (gamma xᵀy + coef0)^degree
///   cosine      xᵀy / (‖x‖ ‖y‖), 0 where one is zero
struct PointKernel {
  PairValue value = PairValue::rbf;
  double gamma = 0.5, coef0 = 1, degree = 3;
  std::vector<double> length;  // one a coordinate, or one for all, or none: 1
  std::vector<double> centre;  // one a coordinate, or none: 0; of distances in many dimensions
};

PairValue pair_value_from_name(std::string_view name);
/// Whether distances in so many dimensions come from products and norms, not from differences.
bool by_norms(const PointKernel& kernel, Index dimensions);
/// Operations for one element: of an exponential 16, of a root 8.
double pair_flops(const PointKernel& kernel, Index dimensions);
/// Bytes of scratch.
std::size_t pair_scratch(Index dimensions);

/// out(i, j) = k(row i of x, row j of y), computed in float64 and rounded once; below the smallest normal number of
/// `out`: zero. x and y: any real dtype and strides; out: float32 or float64. Each element follows from its two points
/// alone, and k(x, y) has the bits of k(y, x).
void pairs(const PointKernel& kernel, const Tile& x, const Tile& y, const Tile& out, std::byte* scratch);

}  // namespace flagstone::kernel
