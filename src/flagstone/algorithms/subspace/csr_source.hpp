#pragma once
// H that lies somewhere as rows, both triangles: its blocks are cut out where they are needed.
#include <memory>
#include <vector>

#include "flagstone/algorithms/subspace/block_source.hpp"

namespace flagstone::subspace {

/// Sorted columns and values of all rows, on disk or in memory, and where each row begins.
struct StoredRows {
  Array columns;              // any whole numbers that hold them
  Array values;               // float32 or float64
  std::vector<Index> starts;  // rows + 1
};

/// Of each group i, from starts[i] on, the j <= i whose blocks hold something, ascending, and how many values.
struct GroupPattern {
  std::vector<Index> starts;
  std::vector<std::int32_t> js;
  std::vector<std::int32_t> nonzeros;
};

/// Reads the rows of a stripe of groups for each pair of stripes that it meets: once for each panel, where they fit.
/// A task reads at most `together` values, or the rows of one group: a stripe with more is several tasks.
std::shared_ptr<const BlockSource> csr_source(StoredRows rows, std::vector<Index> group_rows, GroupPattern pattern,
                                              Index together);

}  // namespace flagstone::subspace
