#pragma once
// Nodes whose centroids are too many for one task: split by passes over all of them.
#include "flagstone/algorithms/labels/centroids.hpp"

namespace flagstone::labels {

struct WideLevel {
  Index tree = 0, level = 0;
  std::uint64_t seed = 0;
};
/// Puts the labels of each node of `nodes`, which lie in `order`, in two halves, the left one first. Two reads of the
/// centroids a round, for as many nodes at a time as a quarter of the memory has centres of.
void split_wide(Graph& graph, const Centroids& centroids, const TreeShape& shape, Index features, const WideLevel& at,
                const std::vector<Index>& nodes, std::int32_t* order);

}  // namespace flagstone::labels
