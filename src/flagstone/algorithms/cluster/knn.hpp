#pragma once
// Exact nearest neighbours: queries stay, points stream past them.
#include <memory>
#include <string>

#include "flagstone/algorithms/cluster/dense_points.hpp"
#include "flagstone/kernel/nearest/best.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::cluster {

struct KnnInput {
  Array queries;  // m x d
  bool queries_transposed = false;
  Array points;  // n x d; the same array: of each query its place among them is its own
  bool points_transposed = false;
  Index k = 10;
  kernel::Metric metric = kernel::Metric::euclidean;
  bool exclude_self = false;                    // query i is not a neighbour of point i
  bool noted = false;                           // where there will be a checkpoint: blocks are shorter
  std::shared_ptr<Checkpoint> checkpoint = {};  // notes the panels of queries whose lists are complete
};

struct KnnNotes {
  Index blocks = 0;  // of queries: the points are read once for each
};

/// ShapeError: dtypes or columns do not fit.
void check_points(const std::string& who, const KnnInput& x);
/// The same, or k.
void check_knn(const KnnInput& x);
kernel::Metric metric_from_name(const std::string& who, const std::string& name);
/// Points that a task compares with its queries at a time: their scores stay in a core's cache.
Index rows_at_a_time(const DensePanels& points);
/// Rows of queries that one task takes: those of a chunk of the results.
Index query_rows(const Array& queries, bool transposed);
/// distances (m x k float64) and indices (m x k int64) := the k nearest points of each query, ascending (products:
/// descending), ties by index, both in chunks of query_rows. Reads the queries once and the points once for each block
/// of queries that fits the budget; 2 m n d flops. Of one array with itself half of both: a pair of panels is met once,
/// and serves the lists of both (k nearest of each panel travel with it). With a checkpoint, blocks that a dead process
/// completed are left out; of points with themselves their pairs with the others are met once more.
void knn(Graph& graph, const KnnInput& x, const Array& distances, const Array& indices, KnnNotes& notes);

}  // namespace flagstone::cluster
