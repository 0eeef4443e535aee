#pragma once
// A tile as runs of elements, and the lane that each belongs to.
#include <algorithm>

#include "flagstone/base/grid.hpp"

namespace flagstone::kernel {

/// Calls f(data, stride, n, lane, step) for runs of n elements, `stride` bytes apart: the first is of `lane`, each
/// further one of the lane `step` on. `lanes`: by how many lanes a step along each dimension goes on. Runs go along the
/// dimension that lies closest in memory.
template <class F>
void for_each_run(const Tile& tile, const Shape& lanes, F&& f) {
  if (count(tile.shape) == 0) return;
  const std::size_t ndim = tile.shape.size();
  if (ndim == 0) return f(tile.data, Index{0}, Index{1}, Index{0}, Index{0});
  std::size_t along = ndim - 1;
  const auto item = static_cast<Index>(size_of(tile.dtype));
  for (std::size_t d = ndim; d-- > 0;)
    if (tile.strides[d] == item && tile.shape[d] > 1) {
      along = d;
      break;
    }
  Shape extents = tile.shape, place(ndim, 0);
  extents[along] = 1;
  do {
    const std::byte* data = tile.data;
    Index lane = 0;
    for (std::size_t d = 0; d < ndim; ++d) data += place[d] * tile.strides[d], lane += place[d] * lanes[d];
    f(data, tile.strides[along], tile.shape[along], lane, lanes[along]);
  } while (advance(place, extents));
}

}  // namespace flagstone::kernel
