#include "flagstone/runtime/graph/distribution.hpp"

#include <algorithm>
#include <utility>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

void check_ranks(int ranks) {
  if (ranks < 1) throw ShapeError("distribution: it is over " + std::to_string(ranks) + " ranks; one is the least.");
}

}  // namespace

Distribution Distribution::block_cyclic(Shape tile, int p, int q) {
  check_ranks(std::min(p, q));
  const auto owner = [p, q](const Shape& at) {
    const std::size_t dims = at.size();
    const Index row = dims < 2 ? 0 : at[dims - 2], col = dims < 1 ? 0 : at[dims - 1];
    return static_cast<int>(row % p * q + col % q);
  };
  return {std::move(tile), owner, {}};
}

Distribution Distribution::rows(const Shape& shape, Shape tile, int ranks) {
  check_ranks(ranks);
  const Index tiles = shape.empty() || tile.empty() ? 1 : ceil_div(shape[0], std::max<Index>(1, tile[0]));
  const Index each = std::max<Index>(1, ceil_div(tiles, ranks));
  return {std::move(tile), [each](const Shape& at) { return at.empty() ? 0 : static_cast<int>(at[0] / each); }, {}};
}

Distribution Distribution::cyclic(Shape tile, int ranks, std::size_t dimension) {
  check_ranks(ranks);
  const auto owner = [ranks, dimension](const Shape& at) {
    return dimension < at.size() ? static_cast<int>(at[dimension] % ranks) : 0;
  };
  return {std::move(tile), owner, {}};
}

Distribution Distribution::one(Shape tile, int rank) {
  return {std::move(tile), [rank](const Shape&) { return rank; }, {}};
}

void check_distribution(const Shape& shape, const Distribution& distribution) {
  if (distribution.tile.size() != shape.size() ||
      std::any_of(distribution.tile.begin(), distribution.tile.end(), [](Index extent) { return extent < 1; }))
    throw ShapeError("distribution: an array " + to_string(shape) + " was given tiles " + to_string(distribution.tile) +
                     "; one extent of at least 1 for each dimension is needed.");
  if (!distribution.owner) throw ShapeError("distribution: nothing says which rank owns a tile; give it an owner.");
}

}  // namespace flagstone
