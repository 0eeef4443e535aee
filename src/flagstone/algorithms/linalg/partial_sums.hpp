#pragma once
// A superblock that takes long is saved while it is computed: sums over the first part of the inner dimension.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/algorithms/linalg/superblock.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::linalg {

/// Copies of C's tiles after some steps, in an array of its own beside the checkpoint: tiles go on changing while they
/// are copied to the disk, and what is noted must not. The copies are tasks like others, so nothing waits for them; the
/// note is made at the first opportunity after they are written. Holds one tile; costs one write of the superblock.
class PartialSums {
 public:
  PartialSums(Graph& graph, FinishedTiles& finished, const Array& c, const ProductTile& tile, Index depth);

  /// How much of the inner dimension a dead process summed up of the tile at (row, col); 0: nothing.
  Index begins(Index row, Index col) const;
  /// Where those sums are.
  Region region(Index row, Index col) const;
  /// Between two steps: everything up to `depth` is added for the tiles of `block`.
  void offer(const Box& block, Index depth);
  /// The superblock is complete; FinishedTiles speaks of it.
  void end() { pending_.reset(); }

 private:
  struct Saved {
    Index row = 0, col = 0, rows = 0, cols = 0, depth = 0, slot = 0;
  };
  struct Copy {
    Saved about;
    Array sums;
    std::vector<Box> parts;  // of `sums`, that are written
  };
  std::string directory(Index slot) const;
  Index free_slot() const;
  bool written(const Copy& copy) const;
  Box part_of(const Saved& about, Index row, Index col) const;
  void begin(const Box& block, Index depth);
  void note();

  Graph& graph_;
  FinishedTiles& finished_;
  Array c_;
  ProductTile tile_;
  Index depth_;
  std::optional<Copy> found_, pending_;
  Index slot_ = -1;  // of the last note
};

}  // namespace flagstone::linalg
