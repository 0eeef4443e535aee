#pragma once
// k-means of points that are larger than memory: one read an iteration.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flagstone/algorithms/cluster/source.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::cluster {

struct KMeansOptions {
  Index k = 0;
  std::string init = "k-means||";  // unused where centres are given
  std::optional<Array> centres;    // k x d float64 in memory
  Index iterations = 300;
  double tol = 1e-4;
  std::uint64_t seed = 0;
  bool minibatch = false;                  // centres move after each batch of points
  bool whole = false;                      // all points are one batch
  std::vector<double> met;                 // of minibatch: weights that the centres have met before; empty: none
  bool labels = true;                      // one more pass, and what belongs to the centres that are returned
  std::shared_ptr<Checkpoint> checkpoint;  // where the state is saved between two iterations
};

struct KMeansResult {
  std::vector<double> centres;  // k x d
  std::vector<double> weights;  // of the points of each
  std::vector<double> met;      // of minibatch: of all points that each centre has met
  double inertia = 0, decided = 0;
  Index iterations = 0;
  bool converged = false;
  Index passes = 0;   // reads of the points; in a plan as expected
  std::string order;  // of centres on disk: what stays while the other streams past
};

/// ShapeError: k, weights or centres do not fit.
void check_kmeans(const PointsInput& x, const KMeansOptions& options);
/// Chunks of the labels: the rows of a panel.
Index label_rows(const PointsInput& x);
/// `out`: labels (m int32), or where they are not wanted the centres (k x d float64).
void kmeans(Graph& graph, const PointsInput& x, const KMeansOptions& options, const Array& out, KMeansResult& result);
/// labels (m int32) := the nearest of these centres (k x d float64 in memory): one read of the points.
void assign_labels(Graph& graph, const PointsInput& x, const Array& centres, const Array& labels, KMeansResult& result);

}  // namespace flagstone::cluster
