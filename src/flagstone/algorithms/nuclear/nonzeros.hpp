#pragma once
// How many values a two-body H stores, without making one.
#include "flagstone/algorithms/nuclear/space.hpp"

namespace flagstone::nuclear {

/// Rows whose neighbours are counted at most: more are looked at one in so many, to about a thousandth of the sum.
inline constexpr Index most_counted_rows = 200'000;

/// Pairs of rows of total M, in the lower triangle, that differ by two nucleons at most and have one parity: a bound of
/// the values of H, which has zeros among them where momenta do not couple. Of one row by tables of states and of pairs
/// of states by quanta and M, less what is occupied; of more than `most_rows` rows, evenly chosen ones.
double nonzeros(const Space& space, int two_m, Index most_rows = most_counted_rows);

}  // namespace flagstone::nuclear
