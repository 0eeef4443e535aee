#pragma once
// What a pass does with the points of one piece once their nearest centres are known, whatever they come from.
#include <algorithm>
#include <functional>
#include <string>

#include "flagstone/algorithms/cluster/source.hpp"

namespace flagstone::cluster {

/// Numbers of a pass in the tiles of one task; null: not wanted.
struct PassTiles {
  double *sums = nullptr, *totals = nullptr;
  Far* farthest = nullptr;
  std::byte* labels = nullptr;
  Index label_step = 4;
  Index k = 0, d = 0, few = 0;

  double& total(Total which) const { return totals[k + static_cast<Index>(which)]; }
  /// Where point `row` is the farthest so far of this panel.
  void offer(const Far& far) const;
};

/// The weights of a panel's points.
struct Weights {
  const Tile* tile = nullptr;  // null: all 1
  std::string who;
  Index first_row = 0;
  /// NumericalError where it is negative, NaN or Inf.
  double at(Index i) const;
};

/// What one point adds to the pass; `add` adds it, weighted, to the sums of its centre.
void count_point(const PassTiles& to, Index row, double weight, Index label, double square, double spread);

/// D² and the nearest candidate of n points, and the keys of what is drawn.
struct DrawTiles {
  double* state = nullptr;   // n x 2
  double* counts = nullptr;  // null: not wanted
  double* keys = nullptr;    // n; null: nothing is drawn
};
/// labels and squares: of the fresh candidates, or null.
void draw_points(const DrawTiles& to, Index n, const std::int32_t* labels, const double* squares, Index base,
                 const Weights& weights, Index first, const kernel::Stream& stream, std::uint64_t first_row);
/// The places of the least keys that are finite, at most `most`, in their order.
std::vector<Index> least_keys(const double* keys, Index n, Index most);
/// pool := with the rows of `offers`, most x (2 + d) each: those with the least keys.
void merge_pool(const Tile& offers, const Tile& pool);

/// Throws: a point holds NaN or Inf.
[[noreturn]] void refuse_bad(const Asked& asked, Index row, Index column);

}  // namespace flagstone::cluster
