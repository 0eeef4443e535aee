#include "flagstone/kernel/dense/mirror.hpp"

#include <algorithm>
#include <complex>
#include <type_traits>

#include "flagstone/kernel/dense/rearrange.hpp"

namespace flagstone::kernel {
namespace {

constexpr Index square = 32;  // both sides of it stay in the nearest cache

template <class T>
T conjugated(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value;
  else
    return std::conj(value);
}

Tile turned(const Tile& tile) {
  Tile seen = tile;
  std::swap(seen.shape[0], seen.shape[1]);
  std::swap(seen.strides[0], seen.strides[1]);
  return seen;
}

template <class T>
T& at(const Tile& tile, Index i, Index j) {
  return *reinterpret_cast<T*>(tile.data + i * tile.strides[0] + j * tile.strides[1]);
}

template <class T>
void conjugate_all(const Tile& tile) {
  for (Index i = 0; i < tile.shape[0]; ++i)
    for (Index j = 0; j < tile.shape[1]; ++j) at<T>(tile, i, j) = conjugated(at<T>(tile, i, j));
}

template <class T>
void mirror_square(const Tile& tile, bool conjugate, Index row, Index col) {
  const Index n = tile.shape[0];
  for (Index i = row; i < std::min(n, row + square); ++i)
    for (Index j = col; j < std::min(i, col + square); ++j)
      at<T>(tile, j, i) = conjugate ? conjugated(at<T>(tile, i, j)) : at<T>(tile, i, j);
}

}  // namespace

void mirror(const Tile& from, bool conjugate, const Tile& to) {
  rearrange(turned(from), to);
  if (conjugate && is_complex(to.dtype))
    visit_blas_type(to.dtype, [&](auto sample) { conjugate_all<decltype(sample)>(to); });
}

void mirror_within(const Tile& tile, bool conjugate) {
  visit_blas_type(tile.dtype, [&](auto sample) {
    using T = decltype(sample);
    const Index n = tile.shape[0];
    for (Index row = 0; row < n; row += square)
      for (Index col = 0; col <= row; col += square) mirror_square<T>(tile, conjugate, row, col);
    if constexpr (!std::is_floating_point_v<T>)
      for (Index i = 0; conjugate && i < n; ++i) at<T>(tile, i, i) = at<T>(tile, i, i).real();
  });
}

}  // namespace flagstone::kernel
