#pragma once
// k-means whose centres lie on disk: points and centres meet in blocks, and neither need fit in memory.
#include "flagstone/algorithms/cluster/kmeans.hpp"

namespace flagstone::centres {

/// Centres as they are given: any real dtype, on disk or in memory.
struct StoredCentres {
  Array array;
  bool transpose = false;  // use arrayᵀ
};

/// ShapeError: what cluster::check_kmeans refuses, seeds that do not fit, mini-batches.
void check_stored(const cluster::PointsInput& x, const cluster::KMeansOptions& options, const StoredCentres& seeds);
/// Whether k centres, their sums and what a pass holds beside them fit in the budget: where not, they belong on disk.
bool centres_fit(const Graph& graph, const cluster::PointsInput& x, Index k);
/// centres (k x d of float32 or float64, in boxes of block_rows) := after Lloyd's iterations from the seeds; labels (m
/// int32; empty: not wanted) := the nearest of them. The bits of cluster::kmeans. options.centres is not read. Bytes:
/// choose_order for a pass. `result` has no centres.
void stored_kmeans(Graph& graph, const cluster::PointsInput& x, const cluster::KMeansOptions& options,
                   const StoredCentres& seeds, const Array& labels, const Array& centres,
                   cluster::KMeansResult& result);
/// labels (m int32) := the nearest of these centres, and what belongs to them.
void assign_to_stored(Graph& graph, const cluster::PointsInput& x, const StoredCentres& centres, const Array& labels,
                      cluster::KMeansResult& result);

}  // namespace flagstone::centres
