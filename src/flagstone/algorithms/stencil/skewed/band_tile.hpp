#pragma once
// A tile of the field in memory, cut into bands of planes.
#include <map>
#include <span>
#include <vector>

#include "flagstone/algorithms/stencil/skewed/slots.hpp"

namespace flagstone::stencil {

/// One tile of a superstep of so many levels. Parts: the slots of all fields, then the coefficients.
struct BandTile {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Slots> slots;
  Index first_step = 0, levels = 0, rows = 0;
  Range3 held;                                 // what is loaded, images beyond periodic edges that are cut included
  std::vector<Interval> bands;                 // of axis 0, in order, all of `held`
  std::vector<Range3> computed;                // by each level, from level 1 on
  std::array<bool, 3> open{};                  // periodic axes that are cut
  Index pitch = 0, plane = 0;                  // bytes from row to row, from plane to plane
  Index set = 0;                               // of buffers
  std::vector<std::pair<bool, Index>> places;  // of each band: whether it is a seam's, and which

  std::size_t parts() const { return slots->number() + problem->coefficients.size(); }
  const Versions& versions() const { return slots->versions(); }
  /// The stage of a level, of several fields.
  const FieldStage& stage(Index level) const {
    return *problem->stages[static_cast<std::size_t>((level - 1) % versions().stages())];
  }
  /// Steps that are done when a level is.
  Index steps_at(Index level) const { return first_step + level / versions().stages(); }
  std::size_t band_of(Index plane) const;
  const Range3& at_level(Index level) const { return computed[static_cast<std::size_t>(level - 1)]; }
  /// What of a range is a band's.
  Range3 of_band(std::size_t band, Range3 range) const;
  /// What a level reads: what it computes and its neighbours, clipped to the tile.
  Range3 around(Index level) const;
  /// The plane that a plane beyond an edge is seen as; low or high: one of a fixed value.
  kernel::GhostSource source(Index plane) const;
  /// For ghosts of single planes of a level's values: what lies beyond axis 0 is looked up.
  kernel::Space flat(Index level) const;
};

/// Bands of a tile's buffers that a task names, and which of its accesses they are.
class Named {
 public:
  void enter(std::size_t part, std::size_t band, std::size_t access) {
    accesses_[{part, band}] = static_cast<std::uint32_t>(access);
  }
  bool has(std::size_t part, std::size_t band) const { return accesses_.contains({part, band}); }
  kernel::Points points(const BandTile& tile, std::span<const Tile> tiles, std::size_t part, std::size_t band) const;

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> accesses_;
};

}  // namespace flagstone::stencil
