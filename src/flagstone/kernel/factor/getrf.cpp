#include "flagstone/kernel/factor/getrf.hpp"

#include <algorithm>
#include <cmath>
#include <complex>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/layout.hpp"
#include "flagstone/kernel/factor/trsm.hpp"

namespace flagstone::kernel {
namespace {

constexpr Index narrow = 16;  // columns that are done one by one: their rows are a cache line or two

template <class T>
auto weight(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::abs(x);
  else
    return std::abs(x.real()) + std::abs(x.imag());
}

/// Rows of m x n elements, one after the other.
template <class T>
int by_columns(T* a, Index m, Index n, std::int64_t* pivots) {
  int info = 0;
  // The largest of a column is found while the column before is eliminated: one look at the rows for each, not two.
  Index best = 0, next = 0;
  const auto look = [&](Index i, Index j, Index& largest) {
    if (weight(a[i * n + j]) > weight(a[largest * n + j])) largest = i;
  };
  for (Index i = 1; i < m; ++i) look(i, 0, best);
  for (Index j = 0; j < n; ++j, best = next) {
    pivots[j] = best;
    const T pivot = a[best * n + j];
    if (pivot == T{}) {
      if (info == 0) info = static_cast<int>(j) + 1;
      next = j + 1;  // the whole column is zero: there is nothing to eliminate
      for (Index i = j + 2; i < m && j + 1 < n; ++i) look(i, j + 1, next);
      continue;
    }
    if (best != j) std::swap_ranges(a + j * n, a + (j + 1) * n, a + best * n);
    next = j + 1;
    for (Index i = j + 1; i < m; ++i) {
      T* const at = a + i * n;
      const T factor = at[j] /= pivot;
      for (Index k = j + 1; k < n; ++k) at[k] -= factor * a[j * n + k];
      if (j + 1 < n && i > j + 1) look(i, j + 1, next);
    }
  }
  return info;
}

/// In a copy without gaps: rows that are a page or more apart share few lines of the nearest cache.
template <class T>
int in_copy(const Tile& tile, std::int64_t* pivots, std::byte* work) {
  const Index m = tile.shape[0], n = tile.shape[1];
  const Index row = tile.strides[0] / static_cast<Index>(sizeof(T)),
              col = tile.strides[1] / static_cast<Index>(sizeof(T));
  T *const a = tile.as<T>(), *const copy = reinterpret_cast<T*>(work);
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) copy[i * n + j] = a[i * row + j * col];
  const int info = by_columns(copy, m, n, pivots);
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) a[i * row + j * col] = copy[i * n + j];
  return info;
}

Tile rows(const Tile& t, Index first, Index last) { return subtile(t, {{first, 0}, {last - first, t.shape[1]}}); }

Tile cols(const Tile& t, Index first, Index last) { return subtile(t, {{0, first}, {t.shape[0], last - first}}); }

int factor(const Tile& a, std::int64_t* pivots, std::byte* work) {
  const Index m = a.shape[0], n = a.shape[1];
  if (n <= narrow) return visit_blas_type(a.dtype, [&]<class T>(T) { return in_copy<T>(a, pivots, work); });
  const Index half = n / 2 / 8 * 8;
  const Tile left = cols(a, 0, half), right = cols(a, half, n), none{nullptr, a.dtype, {0, half}, a.strides, 0};
  const std::span<std::int64_t> first(pivots, half), second(pivots + half, n - half);
  const int info = factor(left, first.data(), work);
  laswp(none, right, 0, 0, first);
  trsm(Side::left, {Uplo::lower, {}, true}, 1.0, rows(left, 0, half), rows(right, 0, half));
  gemm(-1.0, rows(left, half, m), {}, rows(right, 0, half), {}, 1.0, rows(right, half, m), nullptr);
  const int later = factor(rows(right, half, m), second.data(), work);
  for (std::int64_t& pivot : second) pivot += half;
  laswp(none, left, 0, half, second);
  return info != 0 || later == 0 ? info : later + static_cast<int>(half);
}

}  // namespace

std::size_t getrf_work_bytes(Dtype dtype, Index rows) {
  return static_cast<std::size_t>(rows * narrow) * size_of(dtype);
}

int getrf(const Tile& a, std::span<std::int64_t> pivots, std::byte* work) {
  column_view("getrf", a);
  if (a.shape[0] < a.shape[1] || static_cast<Index>(pivots.size()) != a.shape[1])
    throw ShapeError("getrf: the tile is " + to_string(a.shape) + " with room for " + std::to_string(pivots.size()) +
                     " pivots; as many rows as columns, and one pivot a column, are needed.");
  return factor(a, pivots.data(), work);
}

void laswp(const Tile& upper, const Tile& lower, Index origin, Index first, std::span<const std::int64_t> pivots,
           bool backwards) {
  const Index above = upper.shape[0], width = lower.shape[1];
  const auto item = static_cast<Index>(size_of(lower.dtype));
  const auto exchange = [&](Index one, Index other, Index begin, Index end) {
    const auto row = [&](Index r) -> std::pair<std::byte*, Index> {
      return r < above ? std::pair{upper.data + r * upper.strides[0], upper.strides[1]}
                       : std::pair{lower.data + (r - above) * lower.strides[0], lower.strides[1]};
    };
    const auto [x, x_step] = row(one);
    const auto [y, y_step] = row(other);
    if (x_step == item && y_step == item)
      std::swap_ranges(x + begin * item, x + end * item, y + begin * item);
    else
      for (Index k = begin; k < end; ++k) std::swap_ranges(x + k * x_step, x + k * x_step + item, y + k * y_step);
  };
  const auto count = static_cast<Index>(pivots.size());
  // A few columns at a time, so that rows that are exchanged again are still in the nearest cache.
  const Index stripe = 512 / item;
  for (Index begin = 0; begin < width; begin += stripe)
    for (Index step = 0; step < count; ++step) {
      const Index i = backwards ? count - 1 - step : step;
      const Index one = first + i - origin, other = static_cast<Index>(pivots[i]) - origin;
      if (one != other) exchange(one, other, begin, std::min(width, begin + stripe));
    }
}

}  // namespace flagstone::kernel
