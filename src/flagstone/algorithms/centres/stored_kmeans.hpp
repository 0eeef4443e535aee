#pragma once
// k-means whose centres lie on disk: points and centres meet in blocks, and neither need fit in memory.
#include "flagstone/algorithms/cluster/kmeans.hpp"
#include "flagstone/algorithms/cluster/lloyd.hpp"

namespace flagstone::centres {

/// Centres as they are given: any real dtype, on disk or in memory.
struct StoredCentres {
  Array array;
  bool transpose = false;  // use arrayᵀ
  /// In float64, in boxes of the blocks, finite, of unit length where points are: taken as they are, read once.
  bool found = false;
};

/// ShapeError: what cluster::check_kmeans refuses, seeds that do not fit, mini-batches. Seeds without an array are to
/// be found (options.init).
void check_stored(const cluster::PointsInput& x, const cluster::KMeansOptions& options, const StoredCentres& seeds);
/// Whether k centres, their sums and what a pass holds beside them fit in the budget: where not, they belong on disk.
bool centres_fit(const Graph& graph, const cluster::PointsInput& x, Index k);
/// centres (k x d of float32 or float64, in boxes of block_rows) := after Lloyd's iterations from the seeds; labels (m
/// int32; empty: not wanted) := the nearest of them. The bits of cluster::kmeans. options.centres is not read. Bytes:
/// choose_order for a pass. `result` has no centres.
void stored_kmeans(Graph& graph, const cluster::PointsInput& x, const cluster::KMeansOptions& options,
                   const StoredCentres& seeds, const Array& labels, const Array& centres,
                   cluster::KMeansResult& result);
/// What is left of iterations that are a part of another routine.
struct StoredMoves {
  cluster::Progress progress;  // of the labels
  Index point_reads = 0;
  std::string order;  // BlockOrder, told
};
/// The iterations and the labels (m int32) of stored_kmeans, whose state is saved with that of another routine. The
/// seeds are read once; where they go is not told.
StoredMoves stored_lloyd(Graph& graph, const cluster::PointsInput& x, const cluster::LloydOptions& options,
                         StoredCentres seeds, Stages& stages, const Array& labels);
/// labels (m int32) := the nearest of these centres, and what belongs to them.
void assign_to_stored(Graph& graph, const cluster::PointsInput& x, const StoredCentres& centres, const Array& labels,
                      cluster::KMeansResult& result);

}  // namespace flagstone::centres
