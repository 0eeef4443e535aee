#pragma once
// One block of a forest and the points of one batch: nodes that send points on, leaves, means of labels.
#include "flagstone/algorithms/labels/level_pass.hpp"

namespace flagstone::forest {

using kernel::Reached;

/// Points go left or right as far as the block's nodes lead; those that are at leaves stay there.
struct RoutePass final : labels::LevelPass {
  using LevelPass::LevelPass;

 protected:
  void begin(std::span<const Tile> tiles) const override;
  const Reached* reached(std::span<const Tile> tiles) const override {
    return tiles[static_cast<std::size_t>(out)].as<const Reached>();
  }
  bool goes_on() const override { return true; }
  void meet(const Meeting& met, const Tile& to) const override;
};

/// The labels of each leaf that a point is at, and their shares: most_leaf of each tree.
struct LeafPass final : labels::LevelPass {
  using LevelPass::LevelPass;

 protected:
  void begin(std::span<const Tile> tiles) const override;
  bool multiplies() const override { return false; }
  void meet(const Meeting& met, const Tile& to) const override;
};

/// Of each label that a point may have: pf to pf^alpha tail^(1 - alpha).
struct TailPass final : labels::LevelPass {
  using LevelPass::LevelPass;
  double alpha = 1, gamma = 30;

 protected:
  void begin(std::span<const Tile> tiles) const override;
  void open(const kernel::ChunkView& view) const override;
  void meet(const Meeting& met, const Tile& to) const override;

 private:
  mutable double square_ = 0;  // of the mean that is open; of the one task that has it
};

}  // namespace flagstone::forest
