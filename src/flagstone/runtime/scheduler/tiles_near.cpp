#include "flagstone/runtime/scheduler/tiles_near.hpp"

#include <algorithm>

#include "flagstone/runtime/scheduler/cache.hpp"

namespace flagstone {

TilesNear::TilesNear(const Shape& array) {
  const auto found = std::ranges::find_if(array, [](Index extent) { return extent > 1; });
  if (found != array.end()) along_ = static_cast<std::size_t>(found - array.begin());
}

void TilesNear::insert(TileState& tile) {
  by_first_.emplace(first_of(tile.box), &tile);
  longest_ = std::max(longest_, extent_of(tile.box));
}

void TilesNear::erase(TileState& tile) {
  const auto [from, to] = by_first_.equal_range(first_of(tile.box));
  by_first_.erase(std::find_if(from, to, [&](const auto& entry) { return entry.second == &tile; }));
}

}  // namespace flagstone
