#include "flagstone/runtime/graph/place.hpp"

#include <algorithm>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone {
namespace {

/// Tiles along a dimension: only the last one is clipped.
Index tiles_along(const Region& tile, const Shape& at, std::size_t d) {
  const Index extent = at[d] > 0 ? tile.box.start[d] / at[d] : std::max<Index>(1, tile.box.shape[d]);
  return ceil_div(tile.array.shape()[d], extent);
}

}  // namespace

Place cyclic(int devices, std::size_t dimension) {
  return [devices, dimension](const Region& tile, const Shape& at) {
    if (at.empty()) return 1;
    const std::size_t d = std::min(dimension, at.size() - 1);
    const Index from_end = std::max<Index>(0, tiles_along(tile, at, d) - 1 - at[d]), step = from_end % devices;
    return 1 + static_cast<int>(from_end / devices % 2 == 0 ? step : devices - 1 - step);
  };
}

}  // namespace flagstone
