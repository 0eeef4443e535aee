#include "flagstone/algorithms/stencil/skewed/band_tile.hpp"

#include <algorithm>

namespace flagstone::stencil {

std::size_t BandTile::band_of(Index plane) const {
  const auto after = std::upper_bound(bands.begin(), bands.end(), plane,
                                      [](Index at, const Interval& band) { return at < band.last; });
  return static_cast<std::size_t>(after - bands.begin());
}

Range3 BandTile::of_band(std::size_t band, Range3 range) const {
  range.first[0] = std::max(range.first[0], bands[band].first);
  range.last[0] = std::min(range.last[0], bands[band].last);
  return range;
}

Range3 BandTile::around(Index level) const {
  return kernel::intersect(kernel::grown(at_level(level), versions().radius()), held);
}

kernel::GhostSource BandTile::source(Index plane) const {
  if (open[0] || (plane >= 0 && plane < problem->space.shape[0])) return {kernel::GhostSource::inside, plane};
  return kernel::ghost_source(problem->space, 0, plane);
}

kernel::Space BandTile::flat(Index level) const {
  kernel::Space space = problem->space;
  space.radius = versions().radius(), space.radius[0] = 0;
  space.step = steps_at(level);
  return space;
}

kernel::Points Named::points(const BandTile& tile, std::span<const Tile> tiles, std::size_t part,
                             std::size_t band) const {
  const Axes& radius = tile.versions().radius();
  return {tiles[accesses_.at({part, band})].data,
          {tile.bands[band].first, tile.held.first[1] - radius[1], tile.held.first[2] - radius[2]},
          {tile.plane, tile.pitch, tile.problem->item()}};
}

}  // namespace flagstone::stencil
