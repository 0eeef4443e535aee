#pragma once
// A NumericalError that has a place, and what has that place.
#include <cstdint>

#include "flagstone/base/error.hpp"

namespace flagstone {

/// What an element is part of, for errors: the matrix, right-hand sides, what is made of them, the product of
/// right-hand sides and reflectors that nobody has looked at, a factor that was given, or one that the same call made
/// of a matrix it has looked at.
enum class Whose { matrix, right_sides, result, product, given_factor, own_factor };

/// `index`: counted from 1 as LAPACK's info: the order of the leading minor that is not positive or not finite, the
/// column whose pivot is zero. `row`, `col`: where an element is that is NaN or Inf, from 0; else -1.
struct PivotError : NumericalError {
  PivotError(const std::string& text, std::int64_t where, std::int64_t row = -1, std::int64_t col = -1)
      : NumericalError(text), index(where), row(row), col(col) {}
  std::int64_t index, row, col;
};

}  // namespace flagstone
