#pragma once
// A pass of points over centres that lie on disk: which panel meets which block when.
#include "flagstone/algorithms/centres/block_order.hpp"
#include "flagstone/algorithms/centres/block_tasks.hpp"

namespace flagstone::centres {

inline constexpr double share_of_room = 0.8;  // of the budget, for what stays; the rest is on its way
/// Partial sums of a reduction that wait or are being made: a binary counter over the panels.
double partial_sums(const Graph& graph, Index panels);

/// All panels meet all blocks, and what BlockArrays wants is made of it; in the order that moves the fewest bytes.
class BlockPass {
 public:
  BlockPass(Graph& graph, const cluster::PointsInput& x, const cluster::Source& source, const CentreBlocks& centres,
            const BlockArrays& to);
  /// Adds it and waits; the centres are rounded first. `backwards`: the last panel comes first.
  void run(bool backwards);
  const BlockOrder& order() const { return order_; }
  /// Whether centres have no room beside partial sums that are read for apart.
  bool crowded() const;
  std::string told() const { return centres::told(order_, sizes_); }

 private:
  BlockSizes sizes() const;
  void zero_sums(Index from, Index end) const;
  void sum(Index panel, Index from, Index end) const;
  void stream_blocks(const std::vector<Index>& panels) const;
  void stream_points(const std::vector<Index>& panels) const;

  Graph& graph_;
  const cluster::Source& source_;
  const CentreBlocks& centres_;
  const BlockArrays& to_;
  std::unique_ptr<BlockTasks> tasks_;
  BlockSizes sizes_;
  BlockOrder order_;
};

}  // namespace flagstone::centres
