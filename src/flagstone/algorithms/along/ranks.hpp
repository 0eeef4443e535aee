#pragma once
// Order statistics along axes, exactly: medians and quantiles.
#include <string>
#include <vector>

#include "flagstone/algorithms/elementwise/pass.hpp"
#include "flagstone/algorithms/elementwise/reading.hpp"

namespace flagstone::along {

struct RankJob {
  elementwise::Pass pass;     // visits one value
  std::vector<bool> reduced;  // dimensions that lanes go along
  std::vector<Index> wanted;  // ranks in a lane, from 0, increasing
  Array out;                  // in memory, of the value's dtype: ranks x the other extents
};

/// How it was done: looks at the operand.
struct RankScheme {
  int passes = 1, least_passes = 1, most_passes = 1;
  std::string why;
  elementwise::Scheme reading;
};

/// out := the elements of these ranks in each lane (NaN where a lane has one). Where lanes lie whole in tiles of 32 MiB
/// they are partitioned there: one pass. Else keys are counted by their leading 11 bits (16, of few lanes), and then by
/// the next ones of those in the bins that hold what is looked for: 3 passes for 32 bits. Of 64 bits what is left after
/// the second pass is collected in the third, if it fits. Counts are whole numbers: neither the limit nor the workers
/// change the result. Lanes whose counts do not fit into a third of the budget are taken in stripes, each with passes
/// of its own over its part.
void select_ranks(Graph& graph, const RankJob& job, RankScheme& scheme);

}  // namespace flagstone::along
