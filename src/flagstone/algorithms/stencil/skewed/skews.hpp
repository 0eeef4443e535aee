#pragma once
// The geometry of AL3: tiles that lean back by the radius a step, so that nothing is computed twice.
#include <vector>

#include "flagstone/algorithms/stencil/schedules/counts.hpp"
#include "flagstone/algorithms/stencil/skewed/slots.hpp"

namespace flagstone::stencil {

struct SkewedScheme {
  Axes block{1, 1, 1};  // extents of a tile; an axis as long as the field is not cut, nor skewed
  Index depth = 1;      // most steps of a superstep
  Index held = 0;       // of the working arrays: what lies before this along the first axis stays in memory
  Index rows = 0;       // of a strip that is stepped on while its planes are in the cache; 0: all of them
  Index planes = 1;     // of a band: what one task steps on, and the unit in which tiles travel
};

/// One superstep of l levels, each a step (of several fields a stage of one), along each axis: tile k computes level t
/// on [k b - h (t - 1), (k + 1) b - h (t - 1)), h what the farthest of them reaches, all moved down by an offset: so
/// that a result's tiles end where its chunks do, and so that a periodic axis that is cut begins before its edge (it is
/// extended by h a level on both sides).
class Skews {
 public:
  /// `deepest`: most steps of any superstep; `unit`: extents of the results' chunks; `last`: steps of the last
  /// superstep.
  Skews(const Problem& problem, const SkewedScheme& scheme, Index deepest, Index last, const Axes& unit);

  const Slots& slots() const { return slots_; }
  /// Of so many steps.
  Index levels(Index steps) const { return steps * slots_.versions().stages(); }
  Index reach(std::size_t d) const { return slots_.versions().radius()[d]; }

  bool cut(std::size_t d) const { return block_[d] < problem_.space.shape[d]; }
  /// Periodic axes that are cut.
  std::array<bool, 3> open() const;
  Index tiles(std::size_t d, Index levels) const;
  /// What there is of the field at a level (of `levels`), images beyond periodic edges included; of sleeves what later
  /// levels need.
  Interval domain(std::size_t d, Index levels, Index level) const;
  Interval computed(std::size_t d, Index tile, Index levels, Index level) const;
  Interval read(std::size_t d, Index tile, Index levels) const;
  Interval written(std::size_t d, Index tile, Index levels) const;
  /// Images beyond periodic edges that are cut, of one array: copied before each superstep but the first.
  double images(Index levels) const;
  /// Where tile k begins at the first level: whatever lies before, an earlier tile has computed.
  Index begin(std::size_t d, Index tile) const { return tile * block_[d] - offset_[d]; }

  /// Where cells of the working arrays begin and end: every box of any superstep of these levels is whole ones; at most
  /// `most` long.
  std::vector<Index> cuts(std::size_t d, const std::vector<Index>& depths, Index most) const;
  /// Cells between them, or some more where the axis is cut: in closed form, for choosing.
  Index most_cells(std::size_t d, const std::vector<Index>& depths, Index most) const;
  /// Levels of supersteps that differ: of the first ones, and of the last ones where these are shorter.
  std::vector<Index> depths(const Supersteps& supersteps) const;

 private:
  const Problem& problem_;
  Slots slots_;
  Axes block_, offset_{};
  Index deepest_;  // levels
};

/// What a superstep of so many steps moves and updates. In between, of each of the working arrays (two of a field) Π R
/// and Π W by the paper's formula, R = Σ_k |[k b - h l, (k + 1) b + h) ∩ [0, n)|, W = Σ_k |[k b - h (l - 1), (k + 1) b)
/// ∩ [0, n)|, l levels. The first superstep reads of arrays that hold nothing yet only what tiles of its own have
/// written; the last one writes results once, and beside them what later tiles still need.
Counts skewed_counts(const Problem& problem, const Skews& skews, Index depth, bool first, bool last);

}  // namespace flagstone::stencil
