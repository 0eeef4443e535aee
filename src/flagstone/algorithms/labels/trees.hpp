#pragma once
// Trees of labels: balanced spherical 2-means, level by level.
#include "flagstone/algorithms/labels/centroids.hpp"

namespace flagstone::labels {

/// Prabhu et al. 2018, section 4. A node whose centroids have at most `small` values is split with its whole subtree in
/// one task; wider ones by passes over all centroids, two a round, all wide nodes of a level at a time as memory
/// allows.
std::shared_ptr<const std::vector<TreeOrder>> grow_trees(Graph& graph, const Centroids& centroids,
                                                         const TreeShape& shape, Index features, Index trees,
                                                         std::uint64_t seed, Index small);

}  // namespace flagstone::labels
