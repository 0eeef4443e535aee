#pragma once
// One level on a band of a tile: the task's work.
#include "flagstone/algorithms/stencil/field/observers.hpp"
#include "flagstone/algorithms/stencil/field/work.hpp"
#include "flagstone/algorithms/stencil/skewed/band_tile.hpp"

namespace flagstone::stencil {

/// A step, of several fields a stage of one: reads what the slots hold after the level before, of bands as far as the
/// level reaches; fills the ghosts of what it made, as far as the next level reads them.
struct BandStep final : StencilWork {
  std::shared_ptr<const BandTile> tile;
  std::size_t band = 0;
  Index level = 0;
  Named named;
  std::uint32_t scratch = 0;
  struct Trace {
    std::uint32_t access = 0;
    Axes point{};
    std::size_t field = 0;
  };
  std::vector<Trace> traces;
  Observed observed;

  Range3 range() const { return tile->of_band(band, tile->at_level(level)); }
  /// What of the field it computes: images beyond periodic edges are others' too.
  Range3 shown() const { return kernel::intersect(range(), tile->problem->space.whole()); }
  bool ends_step() const { return level % tile->versions().stages() == 0; }
  /// How far the level reaches along axis 0.
  Index reach() const;
  double flops() const;  // of a point
  void run(std::span<const Tile> tiles) const override;
  /// Planes of fixed values, two of a field, and the kernel's.
  static std::uint64_t scratch_bytes(const Problem& problem, std::uint64_t plane);
};

}  // namespace flagstone::stencil
