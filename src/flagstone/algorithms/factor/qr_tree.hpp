#pragma once
// The tree of a communication-avoiding QR: how a matrix is cut, and who meets whom. A function of shape, dtype and the
// kind of devices alone.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone::linalg {

/// How large tiles are, and how long chains.
struct QrCut {
  Index widest = 512;           // columns of a tile: tpmqrt runs at nine tenths of gemm's rate there
  Index tall = 1;               // of several columns of tiles: rows of a tile over its columns
  std::size_t bytes = 4 << 20;  // of a tile, where there is one column of them
  Index shortest_chain = 4;     // tiles of a group: a merge costs a kernel at a lower rate
  Index block = 64;             // reflectors that are applied together; of one column of tiles half as many
  /// A card factors a tall tile in little more time than a square one (each column is some launches, whatever its
  /// length), and wants one product of a whole tile's reflectors, not eight thin ones.
  static QrCut card() { return {512, 16, 32 << 20, 2, 512}; }
};

/// m x n in tiles of rows x cols. One column of tiles: as tall as a few MiB allow; several: `tall` times as high as
/// wide, so that panel k begins inside row tile k / tall. Row tiles belong to groups of `group`, the last one with the
/// remainder: flat chains inside groups, a binary tree over them.
struct QrTree {
  QrTree(Index m, Index n, Dtype dtype, const QrCut& cut = {});

  Index m, n;
  Dtype dtype;
  Index rows, cols;            // of a tile
  Index row_tiles, col_tiles;  // the last ones are clipped
  Index panels;                // columns of tiles with reflectors
  Index groups, group;         // how many, and tiles of each
  Index ib;                    // reflectors that are applied together

  Index height(Index i) const { return std::min(rows, m - i * rows); }
  Index width(Index k) const { return std::min(cols, n - k * cols); }
  /// Reflectors of panel k.
  Index reflectors(Index k) const { return std::min(width(k), m - k * cols); }
  Index group_of(Index i) const { return std::min(i / group, groups - 1); }
  /// The row tile in which panel k begins, and rows of tile i above it: those are R's.
  Index start(Index k) const { return k * cols / rows; }
  Index above(Index k, Index i) const { return std::max<Index>(0, k * cols - i * rows); }
  /// The first row tile of a group that panel k has.
  Index head(Index k, Index q) const { return std::max(q * group, start(k)); }

  /// In which order the tiles of a panel meet. Each is one kernel on a tile (head), on the head's triangle and a tile
  /// (chain), or on the triangles of two heads (merge; `top` and `tile` are heads then).
  struct Step {
    enum Kind { head, chain, merge } kind;
    Index top, tile;
  };
  /// Chains of `beside` groups side by side: an order for the workers; what a tile sees does not depend on it.
  std::vector<Step> steps(Index k, Index beside) const;
  /// The steps inside groups [from, end), side by side; those between heads that they complete, as groups before them
  /// are done: of any number of groups few triangles wait.
  void chains(Index k, Index from, Index end, std::vector<Step>& steps) const;
  void merges(Index k, Index from, Index end, std::vector<Step>& steps) const;
};

/// What a factorization leaves. All are stored transposed (LAPACK's tiles have contiguous columns): `v` is n x m, the
/// reflectors, and R above the panels; `t` their triangular factors, ib rows for each tile and then each group; `r` the
/// triangles of the groups: R of a panel's first one, of the others the reflectors that merged them.
struct Reflectors {
  Array v, t, r;
};
/// Shapes of the three, and of their tiles (chunks).
std::array<std::pair<Shape, Shape>, 3> reflector_shapes(const QrTree& tree);

}  // namespace flagstone::linalg
