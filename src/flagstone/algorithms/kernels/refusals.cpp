// What kernels of factorizations find, in words; apart from the host's kernels, for another memory's.
#include <algorithm>

#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/base/pivot_error.hpp"

namespace flagstone::call {

void refuse_not_finite(const Place& place, Index row, Index col) {
  row += place.row, col += place.col;
  const bool right = place.whose == Whose::right_sides;
  throw PivotError(place.who + (right ? ": b" : ": the matrix") + " has NaN or Inf at row " + std::to_string(row) +
                       ", column " + std::to_string(col) + "; replace such values first.",
                   (right ? row : std::max(row, col)) + 1);
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
