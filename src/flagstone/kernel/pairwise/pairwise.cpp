#include "flagstone/kernel/pairwise/pairwise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "flagstone/base/error.hpp"
#include "flagstone/base/real_types.hpp"

namespace flagstone::kernel {
namespace {

constexpr Index most_differences = 32;  // dimensions in which distances come from differences: no cancellation
constexpr Index block_points = 128;     // of Y, packed together: a multiple of every width
constexpr Index widest = 16;            // of them, and points of X that are packed together
constexpr std::array names = {"rbf", "matern12", "matern32", "matern52", "linear", "polynomial", "cosine"};

/// The widest instruction set that this processor runs.
const PairTable& loops() {
  static const PairTable& chosen = []() -> const PairTable& {
#ifdef FLAGSTONE_WIDE_KERNELS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
      return pairs_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return pairs_avx2;
#endif
    return pairs_baseline;
  }();
  return chosen;
}

bool of_distance(PairValue value) { return value < PairValue::linear; }

double length_of(const PointKernel& kernel, std::size_t k) {
  return kernel.length.empty() ? 1 : kernel.length[kernel.length.size() == 1 ? 0 : k];
}

/// The power of two that brings the largest of a point's coordinates near 1: no cosine changes by it, to the bit, and
/// no square is out of range.
template <class T>
double power_near_one(const std::byte* row, Index depth, Index stride) {
  double largest = 0;
  for (Index k = 0; k < depth; ++k)
    largest = std::max(largest, std::abs(static_cast<double>(*reinterpret_cast<const T*>(row + k * stride))));
  if (largest == 0 || !std::isfinite(largest)) return 1;
  return std::ldexp(1.0, -std::clamp(std::ilogb(largest), -1022, 1022));
}

/// The coordinates of points [first, first + points) of a tile in float64, scaled: coordinate k of point p lands at
/// to[p / group * depth * group + k * group + p % group]. Points up to a whole group are zeros.
void pack(const PointKernel& kernel, const Tile& from, Index first, Index points, Index group, double* to) {
  const Index depth = from.shape[1];
  const bool scaled = of_distance(kernel.value);
  visit_real_type(from.dtype, [&](auto sample) {
    using T = decltype(sample);
    for (Index p = 0; p < ceil_div(points, group) * group; ++p) {
      double* at = to + p / group * depth * group + p % group;
      const std::byte* row = from.data + (first + p) * from.strides[0];
      const double power =
          kernel.value == PairValue::cosine && p < points ? power_near_one<T>(row, depth, from.strides[1]) : 1;
      for (Index k = 0; k < depth; ++k) {
        if (p >= points) {
          at[k * group] = 0;
          continue;
        }
        auto x = static_cast<double>(*reinterpret_cast<const T*>(row + k * from.strides[1]));
        const auto coordinate = static_cast<std::size_t>(k);
        if (scaled && !kernel.centre.empty()) x -= kernel.centre[coordinate];
        at[k * group] = scaled ? x / length_of(kernel, coordinate) : x * power;
      }
    }
  });
}

template <class T>
void put(const double* values, const Tile& out, Index row, Index col, Index n) {
  std::byte* at = out.data + row * out.strides[0] + col * out.strides[1];
  for (Index j = 0; j < n; ++j) *reinterpret_cast<T*>(at + j * out.strides[1]) = static_cast<T>(values[j]);
}

/// What stands in scratch, in its order.
struct Workspace {
  Workspace(std::byte* scratch, Index depth)
      : y(reinterpret_cast<double*>(scratch)),
        x(y + block_points * depth),
        norms_y(x + widest * depth),
        norms_x(norms_y + block_points),
        sums(norms_x + block_points) {}
  double *y, *x, *norms_y, *norms_x, *sums;
};

}  // namespace

PairValue pair_value_from_name(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<PairValue>(i);
  throw ShapeError("kernel matrix: there is no kernel '" + std::string(name) + "'.");
}

bool by_norms(const PointKernel& kernel, Index dimensions) {
  return of_distance(kernel.value) && dimensions > most_differences;
}

double pair_flops(const PointKernel& kernel, Index dimensions) {
  const auto d = static_cast<double>(dimensions);
  const double sum = of_distance(kernel.value) && !by_norms(kernel, dimensions) ? 3 * d : 2 * d;
  constexpr std::array each = {17.0, 24.0, 27.0, 30.0, 0.0, 8.0, 10.0};
  return sum + each[static_cast<std::size_t>(kernel.value)];
}

std::size_t pair_scratch(Index dimensions) {
  const Index numbers = (block_points + widest) * dimensions + 2 * block_points + pair_rows * block_points;
  return static_cast<std::size_t>(numbers) * sizeof(double);
}

void pairs(const PointKernel& kernel, const Tile& x, const Tile& y, const Tile& out, std::byte* scratch) {
  const Index depth = x.shape[1];
  const PairTable& table = loops();
  const Workspace at(scratch, depth);
  const bool with_norms = by_norms(kernel, depth) || kernel.value == PairValue::cosine;
  const double tiny = out.dtype == Dtype::float32 ? static_cast<double>(std::numeric_limits<float>::min())
                                                  : std::numeric_limits<double>::min();
  for (Index col = 0; col < y.shape[0]; col += block_points) {
    const Index cols = std::min(block_points, y.shape[0] - col), panels = ceil_div(cols, table.width);
    pack(kernel, y, col, cols, table.width, at.y);
    if (with_norms) table.norms(at.y, panels, depth, at.norms_y);
    for (Index row = 0; row < x.shape[0]; row += widest) {
      const Index rows = std::min<Index>(widest, x.shape[0] - row);
      if (with_norms) {  // by the loop of Y's norms: the same roundings
        pack(kernel, x, row, rows, table.width, at.x);
        table.norms(at.x, ceil_div(rows, table.width), depth, at.norms_x);
      }
      pack(kernel, x, row, rows, 1, at.x);
      std::fill(at.x + rows * depth, at.x + widest * depth, 0.0);
      for (Index four = 0; four < rows; four += pair_rows) {
        table.sums({at.x + four * depth, depth, at.y, panels, depth, of_distance(kernel.value) && !with_norms, at.sums,
                    block_points});
        for (Index i = four; i < std::min<Index>(rows, four + pair_rows); ++i) {
          double* sums = at.sums + (i - four) * block_points;
          table.values({kernel.value, kernel.gamma, kernel.coef0, kernel.degree, tiny, with_norms ? at.norms_x[i] : 0,
                        with_norms ? at.norms_y : nullptr, sums, panels * table.width});
          out.dtype == Dtype::float32 ? put<float>(sums, out, row + i, col, cols)
                                      : put<double>(sums, out, row + i, col, cols);
        }
      }
    }
  }
}

}  // namespace flagstone::kernel
