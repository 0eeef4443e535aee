#pragma once
// Kernel matrices: k(x, y) of two sets of points, computed where they are loaded.
#include "flagstone/kernel/pairwise/pairwise.hpp"
#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// Points are the rows of a matrix of real numbers, its columns where it is seen transposed.
struct Points {
  Array array;
  bool transpose = false;
};

/// The rows of points of these, as a box of what is stored.
Box point_rows(const Points& points, Index first, Index number);

/// The matrix of k(row of x, row of y), float32 or float64. A box loads the points of its rows and of its columns, once
/// where they are the same; pair_flops an element. ShapeError where points do not fit.
Array kernel_array(const kernel::PointKernel& kernel, const Points& x, const Points& y, Dtype dtype);

}  // namespace flagstone
