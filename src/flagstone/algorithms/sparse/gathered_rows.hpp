#pragma once
// A product's rows on disk, where the rows of a panel are not those of a chunk.
#include "flagstone/algorithms/sparse/csr_ops.hpp"

namespace flagstone::sparse {

/// Whether each panel's rows that are seen are a chunk of Y, or Y is in memory: then tasks write them straight.
bool writes_whole_chunks(const CsrOperand& a, const Array& y);

/// Panels write to tiles of a temporary array, and tasks of their own copy from them into the chunks of Y, in their
/// order. Cost: Y's bytes copied in memory; a tile of the longest panel for each that waits for its chunk.
class GatheredRows {
 public:
  GatheredRows(Graph& graph, const CsrOperand& a, const Array& y);
  /// Where the next panel's task writes its rows: the first of the region's.
  Region next() const;
  /// That task was added; its rows of Y are [row, row + rows).
  void add(Index row, Index rows);

 private:
  Graph& graph_;
  Array y_, panels_;
  Index longest_ = 0;  // rows that are seen of one panel
  Index panel_ = 0;
};

}  // namespace flagstone::sparse
