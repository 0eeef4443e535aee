#include "flagstone/kernel/nearest/points.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::kernel {
namespace {

std::size_t room(Index numbers, std::size_t item) { return align_up(static_cast<std::size_t>(numbers) * item, 64); }

}  // namespace

const RowTable& row_loops() {
  static const RowTable& chosen = []() -> const RowTable& {
#ifdef FLAGSTONE_WIDE_KERNELS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
      return rows_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return rows_avx2;
#endif
    return rows_baseline;
  }();
  return chosen;
}

Tile Points::rounded_tile() const {
  return {reinterpret_cast<std::byte*>(rounded),
          Dtype::float32,
          {rows, d},
          {d * 4, 4},
          static_cast<std::size_t>(rows * d) * 4};
}

std::size_t points_bytes(Index rows, Index d) { return room(rows * d, 8) + room(rows * d, 4) + 2 * room(rows, 8); }

Points points_at(std::byte* memory, Index rows, Index d) {
  Points made{rows, d};
  made.exact = reinterpret_cast<double*>(memory), memory += room(rows * d, 8);
  made.rounded = reinterpret_cast<float*>(memory), memory += room(rows * d, 4);
  made.scales = reinterpret_cast<double*>(memory), memory += room(rows, 8);
  made.squares = reinterpret_cast<double*>(memory);
  return made;
}

Index load_points(const Tile& from, bool unit, const double* shift, const Points& to) {
  const RowTable& loops = row_loops();
  const Index d = to.d;
  convert(from, nullptr,
          {reinterpret_cast<std::byte*>(to.exact),
           Dtype::float64,
           {to.rows, d},
           {d * 8, 8},
           static_cast<std::size_t>(to.rows * d) * 8});
  for (Index i = 0; i < to.rows; ++i) {
    const double* x = to.row(i);
    to.scales[i] = unit ? inverse_length(x, d, loops.product(x, x, d)) : 1;
    to.squares[i] = loops.round(x, to.scales[i], shift, d, to.rounded + i * d);
    if (!std::isfinite(to.squares[i]) && first_bad(x, d) >= 0) return i;
  }
  return -1;
}

double inverse_length(const double* x, Index n, double square) {
  if (std::isnormal(square)) return 1 / std::sqrt(square);
  if (std::isnan(square)) return 0;
  double most = 0, sum = 0;
  for (Index j = 0; j < n; ++j) most = std::max(most, std::abs(x[j]));
  if (!(most > 0) || !std::isfinite(most)) return 0;
  for (Index j = 0; j < n; ++j) sum += (x[j] / most) * (x[j] / most);
  const double found = 1 / std::sqrt(sum) / most;
  return std::isfinite(found) ? found : 0;
}

Index first_bad(const double* x, Index n) {
  const double* found = std::find_if(x, x + n, [](double value) { return !std::isfinite(value); });
  return found == x + n ? -1 : found - x;
}

double score_error(Index d, double length_x, double length_c) {
  constexpr double unit = 0x1p-24;
  return unit * ((static_cast<double>(d) + 4) * length_x * length_c + 4 * length_c * length_c) + 1e-37;
}

}  // namespace flagstone::kernel
