#pragma once
// All distances of points from centres, stored.
#include "flagstone/algorithms/cluster/source.hpp"

namespace flagstone::cluster {

/// out (m x k float64, chunks of query_rows rows) := the distance of each point from each centre (k x d float64), by
/// differences; of unit rows 1 - cos. 3 m k d flops in float64, of sparse points 5 nnz k.
void distances(Graph& graph, const PointsInput& x, const Array& centres, const Array& out);

}  // namespace flagstone::cluster
