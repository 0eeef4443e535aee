#pragma once
// Which process has which tile of an array, and in which of its memories: functions of the tile's place alone, so that
// all processes say the same. One process runs today, which has all of them.
#include <functional>

#include "flagstone/base/shape.hpp"

namespace flagstone {

struct Distribution {
  Shape tile;                                 // extents; one for each dimension of the array
  std::function<int(const Shape& at)> owner;  // rank; `at`: the tile's place in the grid of tiles
  std::function<int(const Shape& at)> place;  // memory of that rank, 0 the host; none: as the run's options say

  /// p x q processes over the last two dimensions, tile by tile: what matrices are by default.
  static Distribution block_cyclic(Shape tile, int p, int q);
  /// As many rows of tiles that lie together for each rank as there are, of an array of this shape: what is tall.
  static Distribution rows(const Shape& shape, Shape tile, int ranks);
  /// One rank after the other along a dimension.
  static Distribution cyclic(Shape tile, int ranks, std::size_t dimension = 0);
  /// All of it with one rank.
  static Distribution one(Shape tile, int rank);
};

/// ShapeError where an array of this shape cannot be distributed so: extents of tiles, what is missing.
void check_distribution(const Shape& shape, const Distribution& distribution);

}  // namespace flagstone
