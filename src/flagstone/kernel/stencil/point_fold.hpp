#pragma once
// What a step's points come to: extremes, sums, the largest change; in whatever order points come, the same bits.
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "flagstone/base/dtype.hpp"
#include "flagstone/kernel/stencil/exact_sum.hpp"
#include "flagstone/kernel/stencil/points.hpp"

namespace flagstone::kernel {

/// sum: of integers modulo 2^64, of others exact and rounded once; l2: the root of the sum of squares (each rounded to
/// a double, their sum as `sum`); change: the largest |u' - u|. NaN anywhere: extremes, change and sums are NaN.
enum class FoldKind : std::uint8_t { max, min, sum, l2, change };
FoldKind point_fold_from_name(std::string_view name);
/// Of a field of a dtype. ShapeError: complex numbers have no order.
Dtype dtype_of_fold(FoldKind kind, Dtype field);

/// Thread-safe where each thread has its own; they are merged.
class PointFold {
 public:
  /// `check`: looks for the first point that is no finite number, too.
  PointFold(Dtype dtype, std::vector<FoldKind> kinds, bool check);
  /// The points of a range after a step, and before it; `shape`: of the field.
  void add(const Points& from, const Points& to, const Range3& range, const Axes& shape);
  void merge(const PointFold& other);

  Index points() const { return points_; }
  /// Writes one element of dtype_of_fold(kind).
  void value(FoldKind kind, std::byte* to) const;
  /// As a double, for criteria.
  double number(FoldKind kind) const;
  static constexpr Index none = std::numeric_limits<Index>::max();
  /// In C order of the field; none: all are finite.
  Index first_not_finite() const { return bad_; }

 private:
  template <class T>
  void add_row(const std::byte* from, const std::byte* to, Index n, Index first);
  bool has(FoldKind kind) const;

  Dtype dtype_;
  std::vector<FoldKind> kinds_;
  bool check_;
  Index points_ = 0, bad_ = none;
  bool nan_ = false, nan_change_ = false;
  std::int64_t most_ = std::numeric_limits<std::int64_t>::min(), least_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t change_ = std::numeric_limits<std::int64_t>::min();  // as the extremes: keys, in the order of values
  std::uint64_t whole_ = 0;                                         // the sum of integers
  ExactSum sum_, imaginary_, squares_;
};

}  // namespace flagstone::kernel
