#pragma once
// A NumericalError that has a place.
#include <cstdint>

#include "flagstone/base/error.hpp"

namespace flagstone {

/// `index`: counted from 1 as LAPACK's info: the order of the leading minor that is not positive or not finite, the
/// column whose pivot is zero. `row`, `col`: where an element is that is NaN or Inf, from 0; else -1.
struct PivotError : NumericalError {
  PivotError(const std::string& text, std::int64_t where, std::int64_t row = -1, std::int64_t col = -1)
      : NumericalError(text), index(where), row(row), col(col) {}
  std::int64_t index, row, col;
};

}  // namespace flagstone
