#pragma once
// Products with H' as it lies on disk.
#include <memory>
#include <vector>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::subspace {

/// One run of H' as its index says.
struct StoredRun {
  std::int32_t row = 0, col = 0;
  Index first = 0, length = 0, blocks = 0, count = 0;
};

/// H', opened: a symmetric matrix of which pairs of stripes I >= J are stored.
struct StoredMatrix {
  Array values;                // 1-D, float32 or float64
  Array blocks;                // int32, groups (i, j) of each block
  std::vector<Index> columns;  // of each group
  std::vector<Index> stripes;  // first groups; the last is the number of groups
  std::vector<StoredRun> runs;
};

/// FormatError where the parts of an index do not fit each other.
void check_stored(const StoredMatrix& h);
/// y (n x b, float64, in memory) := y + H' x. Reads H' once; 4 nonzeros b flops. Runs are added in the order in which
/// they lie, so the bits do not depend on limit or workers.
void multiply(Graph& graph, std::shared_ptr<const StoredMatrix> h, const Array& x, const Array& y);
/// to (n x n, float64, C order, in memory, zero) := H', both triangles.
void to_dense(Graph& graph, std::shared_ptr<const StoredMatrix> h, const Array& to);

}  // namespace flagstone::subspace
