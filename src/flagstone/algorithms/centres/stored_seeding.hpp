#pragma once
// Seeds of k-means that lie on disk, as cluster::seeds finds them in memory.
#include "flagstone/algorithms/centres/stored_kmeans.hpp"
#include "flagstone/algorithms/cluster/seeding.hpp"

namespace flagstone::centres {

/// k x d float64 in scratch, in boxes of block_rows, the bits of cluster::seeds; saved with the other stages.
/// k-means|| keeps its 5 k candidates there too: greedy k-means++ reads them k times, where they do not fit from disk.
/// `done`: of all the work, once they are found; `reads`: of X, added.
StoredCentres stored_seeds(Graph& graph, const cluster::PointsInput& x, Index k, cluster::Init init, std::uint64_t seed,
                           Stages& stages, double done, Index& reads);

}  // namespace flagstone::centres
