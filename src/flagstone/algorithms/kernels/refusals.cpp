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
  if (place.whose == Whose::product)
    throw NumericalError(place.who + ": the product" + at +
                         " and b has none: the factor has, or the product is beyond the largest number; look at the "
                         "factor, or scale b down.");
  if (place.whose == Whose::own_factor)
    throw PivotError(place.who + ": the factor of the matrix" + at +
                         " and the matrix has none: elimination went beyond the largest number; scale the matrix down.",
                     std::max(row, col) + 1, row, col);
  const bool right = place.whose == Whose::right_sides;
  const char* const whose = right ? ": b" : place.whose == Whose::given_factor ? ": the factor" : ": the matrix";
  throw PivotError(place.who + whose + at + "; replace such values first.", (right ? row : std::max(row, col)) + 1, row,
                   col);
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
