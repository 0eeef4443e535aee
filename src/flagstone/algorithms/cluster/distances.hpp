#pragma once
// All distances of points from centres, stored.
#include "flagstone/algorithms/cluster/source.hpp"

namespace flagstone::cluster {

/// out (m x k float64, chunks of query_rows rows) := the distance of each point from each centre (k x d float64), by
/// differences; of unit rows 1 - cos. 3 m k d flops in float64, of sparse points 5 nnz k. Of a choice of rows as many
/// columns of chunks as a quarter of the budget holds, one at least (8 m bytes a column), are put together in memory.
void distances(Graph& graph, const PointsInput& x, const Array& centres, const Array& out);

}  // namespace flagstone::cluster
