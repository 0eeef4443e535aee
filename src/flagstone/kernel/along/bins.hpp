#pragma once
// Elements by the bin that they lie in.
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// How many of `edges`, which do not decrease, lie at or below x (`right`: below it): numpy.searchsorted. NaN is beyond
/// all edges.
struct Bins {
  std::vector<double> edges;
  std::vector<std::int64_t> whole;  // in place of them where integers are compared with integers
  bool right = false;
  bool down = false;    // they were given in decreasing order: those that do not lie before x are counted
  bool invert = false;  // of booleans: whether it is none of them
};

/// counts[b] := those plus the elements in bin b: edges[b] <= x < edges[b + 1], of the last bin its upper edge too.
/// Edges that stand equally far apart are found by a division and looked at.
void count_bins(const Bins& bins, const Tile& values, std::int64_t* counts);
/// sums[b] := those plus the weights (float64, of the same shape) of the elements in bin b; `bins` null: of the
/// integers b. One addition an element, in the order of the tile.
void weigh_bins(const Bins* bins, const Tile& values, const Tile& weights, double* sums);
/// counts[x] := those plus the elements x, of integers in [0, n).
void count_integers(const Tile& values, std::int64_t* counts);
/// to := for each element how many edges lie before it. int64; booleans: whether it is one of them.
void bin_index(const Bins& bins, const Tile& values, const Tile& to);

}  // namespace flagstone::kernel
