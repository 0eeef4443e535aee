#pragma once
// Which eigenpairs are wanted: an end of the spectrum, or both.
#include <string>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::spectral {

enum class Which { largest_magnitude, largest, smallest, both_ends };
/// "LM" "LA" "SA" "BE"; ShapeError else.
Which which_from_name(const std::string& name);

/// Places of the k wanted among `values`, in the order of `which`: largest magnitude first; descending; ascending; the
/// largest, the smallest, the second largest, ...
std::vector<Index> wanted(const std::vector<double>& values, Which which, Index k);

/// Whether `value` would take the place of one of `chosen`, which are the wanted ones of all that is known, by more
/// than `slack`.
bool displaces(double value, const std::vector<double>& chosen, Which which, double slack);

}  // namespace flagstone::spectral
