#pragma once
// Tasks of a pass in which centres lie on disk: a panel of points against one block of them.
#include "flagstone/algorithms/cluster/dense_points.hpp"

namespace flagstone::centres {

/// Rows of a block of centres: some 4 MiB in float64. A function of k and d alone: tiles are of such boxes.
Index block_rows(Index k, Index d);

/// Centres in boxes of block_rows, and what a pass reads of them. 8 k bytes of memory, 4 k d of scratch.
class CentreBlocks {
 public:
  CentreBlocks(Graph& graph, Index k, Index d);

  Index k() const { return k_; }
  Index d() const { return d_; }
  Index count() const { return ceil_div(k_, step_); }
  Index step() const { return step_; }
  Index first(Index block) const { return block * step_; }
  Index length(Index block) const { return std::min(step_, k_ - first(block)); }
  Box box(Index block) const { return {{first(block), 0}, {length(block), d_}}; }

  Array exact;  // k x d float64: where they stand
  Array shift;  // 1 x d float64 in memory: their mean, or zeros
  /// Adds the tasks that round all of them about the shift, after each change.
  void round(Graph& graph) const;
  /// Appends what a task reads of a block; tiles come back in this order.
  void access(Index block, std::vector<Access>& accesses) const;
  static kernel::Centres seen(std::span<const Tile> tiles, bool unit);

 private:
  Index k_, d_, step_;
  Array rounded_;         // k x d float32 in scratch
  Array half_, longest_;  // a row for each block
};

/// Of each point the nearest centre so far: score, square of the distance, number.
inline constexpr Index state_width = 3;

/// What a pass changes; what is empty is not wanted.
struct BlockArrays {
  Array state;     // m x state_width float64
  Array opened;    // panels x blocks float64 in memory := points that float64 decided
  Array totals;    // 1 x (k + 3) float64 in memory += as of cluster::Assignment
  Array farthest;  // panels x (4 few) float64 in memory := the same
  Array labels;    // m int32
  Array sums;      // k x d float64 in boxes of blocks
};

/// Adds tasks for one set of points.
class BlockTasks {
 public:
  BlockTasks(Graph& graph, const cluster::PointsInput& x, const CentreBlocks& centres, const BlockArrays& to);

  const cluster::DensePanels& panels() const { return *panels_; }
  /// A panel meets a block: the first of them, or the last, after which totals, farthest and labels are known. Blocks
  /// come in any order.
  void assign(Index panel, Index block, bool first, bool last);
  /// Sums of a block += the points of a panel that are nearest to one of its centres.
  void add_sums(Index panel, Index block);
  /// Bytes of a task's scratch memory.
  std::size_t scratch_bytes() const;

 private:
  Region state_of(Index panel) const;

  Graph& graph_;
  cluster::PointsInput x_;
  const CentreBlocks& centres_;
  const BlockArrays& to_;
  std::shared_ptr<const cluster::DensePanels> panels_;
};

}  // namespace flagstone::centres
