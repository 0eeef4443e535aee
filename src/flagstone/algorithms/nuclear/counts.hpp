#pragma once
// How large a projection is, without listing states or pairs of groups.
#include "flagstone/algorithms/nuclear/space.hpp"

namespace flagstone::nuclear {

struct Counts {
  Index groups = 0, groups_used = 0;  // used: they have states of this J
  Index dimension = 0;                // rows of M = J
  Index columns = 0;                  // states of J
  Index tasks = 0;                    // pairs of used groups that differ by two moves of nucleons at most
  Index z_numbers = 0, distinct_numbers = 0;
  double h_prime_numbers = 0;  // of the lower triangle
  double multiply_adds = 0;    // Σ d z z of the cheaper side, over these pairs
};

/// Classes of equal M-distributions, then pairs of configurations, then products of matrices of classes: exact while
/// sums stay below 2^53. Source: the counts of Aktulga et al., Euro-Par 2012, table 1.
Counts counts(const Space& space, int two_j);

}  // namespace flagstone::nuclear
