#pragma once
// A NumericalError that has a place.
#include <cstdint>

#include "flagstone/base/error.hpp"

namespace flagstone {

/// `index`: counted from 1 as LAPACK's info: the order of the leading minor that is not positive or not finite, the
/// column whose pivot is zero.
struct PivotError : NumericalError {
  PivotError(const std::string& text, std::int64_t where) : NumericalError(text), index(where) {}
  std::int64_t index;
};

}  // namespace flagstone
