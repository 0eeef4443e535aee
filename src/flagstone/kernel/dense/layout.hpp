#pragma once
// How BLAS and LAPACK may see a tile.
#include <limits>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

inline constexpr Index blas_max = std::numeric_limits<int>::max();

/// Of a 2-D tile: leading dimension in elements for either order, 0 where that order does not fit.
struct BlasLayout {
  Index row_ld = 0, column_ld = 0;
};
BlasLayout blas_layout(const Tile& tile);

/// A 2-D tile as LAPACK reads it, by columns: itself, or where its rows are runs its transpose.
struct ColumnView {
  std::byte* data = nullptr;
  int rows = 0, cols = 0, ld = 1;
  bool turned = false;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};
/// ShapeError with `who` unless the tile has two dimensions below 2^31, one unit stride, and a dtype that BLAS computes
/// in (float32, float64, complex64, complex128). `turn`: where both views fit (a vector), the transposed one.
ColumnView column_view(const char* who, const Tile& tile, bool turn = false);

}  // namespace flagstone::kernel
