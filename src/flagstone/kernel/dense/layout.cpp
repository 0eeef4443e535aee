#include "flagstone/kernel/dense/layout.hpp"

#include <algorithm>

#include "flagstone/base/error.hpp"

namespace flagstone::kernel {
namespace {

/// A stride along a dimension of extent <= 1 means nothing and may hold any value.
Index leading(Index extent, Index stride, Index inner_extent, Index inner_stride, Index item) {
  if (inner_extent > 1 && inner_stride != item) return 0;
  const Index least = std::max<Index>(1, inner_extent);
  if (extent <= 1) return least;
  if (stride % item != 0 || stride / item < least || stride / item > blas_max) return 0;
  return stride / item;
}

}  // namespace

BlasLayout blas_layout(const Tile& t) {
  const auto item = static_cast<Index>(size_of(t.dtype));
  return {leading(t.shape[0], t.strides[0], t.shape[1], t.strides[1], item),
          leading(t.shape[1], t.strides[1], t.shape[0], t.strides[0], item)};
}

ColumnView column_view(const char* who, const Tile& t, bool turn) {
  const auto refuse = [&](const std::string& text) { throw ShapeError(std::string(who) + ": " + text); };
  if (t.shape.size() != 2) refuse("a tile has " + std::to_string(t.shape.size()) + " dimensions; two are needed.");
  if (t.dtype != Dtype::float32 && t.dtype != Dtype::float64 && !is_complex(t.dtype))
    refuse("a tile is " + std::string(name_of(t.dtype)) + "; float32, float64, complex64 or complex128 is needed.");
  if (std::max(t.shape[0], t.shape[1]) > blas_max)
    refuse("a tile extent above 2^31 - 1 was given; LAPACK counts in 32 bits, use smaller tiles.");
  const BlasLayout layout = blas_layout(t);
  if (layout.column_ld == 0 && layout.row_ld == 0)
    refuse("a tile has two strides; one unit stride is needed, copy it.");
  const bool turned = layout.column_ld == 0 || (turn && layout.row_ld > 0);
  return {t.data, static_cast<int>(t.shape[turned]), static_cast<int>(t.shape[!turned]),
          static_cast<int>(turned ? layout.row_ld : layout.column_ld), turned};
}

}  // namespace flagstone::kernel
