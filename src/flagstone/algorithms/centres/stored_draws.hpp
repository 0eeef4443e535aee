#pragma once
// Points drawn as seeds, a round at a time, where those of a round need not fit in memory.
#include "flagstone/algorithms/centres/block_pass.hpp"

namespace flagstone::centres {

/// Rows of what is drawn: cluster::seeds draws the same. 40 bytes a point in scratch, 56 a point drawn in memory: its
/// row, and while a round is sorted and gathered its key, its place and the vectors that double as they grow.
class StoredDraws {
 public:
  /// So many a round, at most so many in all.
  StoredDraws(Graph& graph, const cluster::PointsInput& x, Index each, Index most, std::uint64_t seed);

  /// D² to the points of the last round, and what is drawn by it. False where nothing was left to draw.
  bool draw();
  /// Of each point that was drawn the weights of the points that are nearest to it (1 x most float64 in memory). After
  /// it, as after end(), nothing more is drawn.
  Array weigh();
  void end();
  /// In the order in which they were drawn.
  const std::vector<Index>& rows() const { return rows_; }
  /// to (float64, in boxes of `step` rows) := these points, divided by their lengths where all are.
  void gather(const std::vector<Index>& rows, const Array& to, Index step);
  /// Of X, so far.
  Index reads() const { return reads_; }

 private:
  struct Pass {
    Array pool, counts;  // as of cluster::Drawing
  };
  /// D² and the nearest point of the last round.
  void compare();
  void run(const Pass& pass);
  void add_draw(const Pass& pass, Index panel);
  Index first(Index panel) const { return firsts_[static_cast<std::size_t>(panel)]; }
  Array of_points(Index width) const;

  Graph& graph_;
  cluster::PointsInput x_;
  std::unique_ptr<cluster::Source> source_;
  Layout layout_;
  Index each_, most_;
  Charge held_;
  kernel::PhiloxKey key_;
  std::uint32_t call_ = 0;
  Array squares_;              // m x 2: D², the nearest of all that were drawn
  BlockArrays to_;             // its state: of the last round alone
  std::vector<Index> firsts_;  // rows of panels, and behind the last
  std::vector<Index> rows_;
  std::size_t base_ = 0;  // the first of the last round
  Index reads_ = 0;
};

}  // namespace flagstone::centres
