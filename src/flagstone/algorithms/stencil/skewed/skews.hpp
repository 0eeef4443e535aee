#pragma once
// The geometry of AL3: tiles that lean back by the radius a step, so that nothing is computed twice.
#include <vector>

#include "flagstone/algorithms/stencil/schedules/counts.hpp"

namespace flagstone::stencil {

struct SkewedScheme {
  Axes block{1, 1, 1};  // extents of a tile; an axis as long as the field is not cut, nor skewed
  Index depth = 1;      // most steps of a superstep
  Index held = 0;       // of the working pair: what lies before this along the first axis stays in memory
  Index rows = 0;       // of a strip that is stepped on while its planes are in the cache; 0: all of them
  Index planes = 1;     // of a band: what one task steps on, and the unit in which tiles travel
};

/// One superstep of t steps, along each axis: tile k computes P[t & 1] on [k b - h (t - 1), (k + 1) b - h (t - 1)), all
/// moved down by an offset: so that a result's tiles end where its chunks do, and so that a periodic axis that is cut
/// begins before its edge (it is extended by h a step on both sides).
class Skews {
 public:
  /// `deepest`: most steps of any superstep; `unit`: extents of the results' chunks; `last`: steps of the last
  /// superstep.
  Skews(const Problem& problem, const SkewedScheme& scheme, Index deepest, Index last, const Axes& unit);

  bool cut(std::size_t d) const { return block_[d] < problem_.space.shape[d]; }
  /// Periodic axes that are cut.
  std::array<bool, 3> open() const;
  Index tiles(std::size_t d, Index depth) const;
  /// What there is of the field at a step (of `depth`), images beyond periodic edges included; of sleeves what later
  /// steps need.
  Interval domain(std::size_t d, Index depth, Index step) const;
  Interval computed(std::size_t d, Index tile, Index depth, Index step) const;
  Interval read(std::size_t d, Index tile, Index depth) const;
  Interval written(std::size_t d, Index tile, Index depth) const;
  /// Where tile k begins at the first step: whatever lies before, an earlier tile has computed.
  Index begin(std::size_t d, Index tile) const { return tile * block_[d] - offset_[d]; }

  /// Where cells of the working pair begin and end: every box of any superstep of these depths is whole ones; at most
  /// `most` long.
  std::vector<Index> cuts(std::size_t d, const std::vector<Index>& depths, Index most) const;

 private:
  const Problem& problem_;
  Axes block_, offset_{};
  Index deepest_;
};

/// What a superstep moves and updates. In between, 2 Π R and 2 Π W by the paper's formula, R = Σ_k |[k b - h t, (k + 1)
/// b
/// + h) ∩ [0, n)|, W = Σ_k |[k b - h (t - 1), (k + 1) b) ∩ [0, n)|. The first superstep reads of a second array that
/// holds nothing yet only what tiles of its own have written; the last one writes results once, and beside them what
/// later tiles still need.
Counts skewed_counts(const Problem& problem, const Skews& skews, Index depth, bool first, bool last);

}  // namespace flagstone::stencil
