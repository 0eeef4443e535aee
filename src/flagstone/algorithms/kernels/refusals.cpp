// What kernels of factorizations find, in words; apart from the host's kernels, for another memory's.
#include <algorithm>
#include <utility>

#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/base/pivot_error.hpp"

namespace flagstone::call {

void refuse_not_finite(const Place& place, Index row, Index col) {
  row += place.row, col += place.col;
  if (place.turned) std::swap(row, col);
  const std::string at = " has NaN or Inf at row " + std::to_string(row) + ", column " + std::to_string(col);
  if (place.whose == Whose::result)
    throw NumericalError(place.who + ": the result" + at +
                         " and what was given has none: it is beyond the largest number; scale the matrix down.");
  const bool right = place.whose == Whose::right_sides;
  throw PivotError(place.who + (right ? ": b" : ": the matrix") + at + "; replace such values first.",
                   (right ? row : std::max(row, col)) + 1, row, col);
}

void refuse_minor(const Place& place, Index minor) {
  const Index order = place.row + minor;
  throw PivotError(place.who + ": the matrix is not positive definite, its leading minor of order " +
                       std::to_string(order) + " is not positive; add a shift to the diagonal or mend the matrix.",
                   order);
}

void refuse_zero_pivot(const Place& place, Index row) {
  const Index order = place.row + row + 1;
  throw PivotError(place.who + ": the matrix is singular, element " + std::to_string(order - 1) +
                       " of its diagonal is zero; there is no solution.",
                   order);
}

}  // namespace flagstone::call
