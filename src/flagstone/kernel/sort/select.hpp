#pragma once
// Where sorted runs part at a rank: multiway selection (Varman et al. 1991; Rahn, Sanders, Singler 2010).
#include <vector>

#include "flagstone/kernel/sort/order.hpp"

namespace flagstone::kernel {

/// The places [low, high) of a run among which it parts; records of blocks that are in memory.
struct RunWindow {
  Index low = 0, high = 0;
  Index first = 0;                            // the place of the first record of blocks[0]
  Index block = 1;                            // records of a block
  std::vector<const std::byte*> blocks = {};  // as many as the window reaches into

  const std::byte* at(Index place, std::size_t width) const {
    const Index i = place - first;
    return blocks[static_cast<std::size_t>(i / block)] + static_cast<std::size_t>(i % block) * width;
  }
};

/// Moves low and high of every run together so that the sum of all lows is `rank`, which lies between the sums of lows
/// and of highs, and no record before them is greater than one behind; of equal records those of earlier runs come
/// first. Ends after at most as many rounds as there are places, whatever the order says; of k runs with w places
/// O(log(k w)) rounds of O(k log w) comparisons.
void part_runs(const RecordOrder& order, std::vector<RunWindow>& runs, Index rank);

}  // namespace flagstone::kernel
