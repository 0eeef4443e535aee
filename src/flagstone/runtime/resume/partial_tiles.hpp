#pragma once
// Tiles that are summed up along an inner dimension: finished ones, and those that a save finds half summed.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone {

/// The tiles of a matrix, block by block and in each block step by step of an inner dimension: open() says which tiles
/// a step adds to, close() that a block is complete. Finished blocks are noted as FinishedTiles notes them. A block
/// that takes long is saved while it is computed: copies of its tiles, in an array of their own beside the checkpoint,
/// because tiles go on changing while they go to the disk, and what is noted must not. The copies are tasks like
/// others, so nothing waits for them; the note is made at the first opportunity after they are written. Holds one tile;
/// costs one write of the block.
class PartialTiles {
 public:
  PartialTiles(Stages& stages, const Array& out, const Shape& tile, Index inner, Index step);

  /// Row and column, in tiles, of the tiles of `block` (a box of tiles) that step `step` adds to. Where a dead process
  /// summed up what lies before it, the task that brings this in is added here.
  std::vector<std::pair<Index, Index>> open(const Box& block, Index step);
  /// The two halves of open(), for steps that go over a block part by part: between two steps of the whole block, a
  /// chance to save it; and the tiles of a part of it.
  void offer(const Box& block, Index step);
  std::vector<std::pair<Index, Index>> tiles(const Box& part, Index step);
  /// The tasks of all steps of the block are added.
  void close(const Box& block);

 private:
  struct Saved {
    Index row = 0, col = 0, rows = 0, cols = 0, depth = 0, slot = 0;
  };
  struct Copy {
    Saved about;
    Array sums;
    std::vector<Box> parts;  // of `sums`, that are written
  };
  /// In elements.
  Box elements(const Box& block) const;
  std::string directory(Index slot) const;
  Index free_slot() const;
  bool written(const Copy& copy) const;
  Box part_of(const Saved& about, Index row, Index col) const;
  /// How much of the inner dimension a dead process summed up of the tile at (row, col); 0: nothing.
  Index begins(Index row, Index col) const;
  /// Between two steps: everything up to `depth` is added for the tiles of `block`.
  void save(const Box& block, Index depth);
  void begin(const Box& block, Index depth);
  void note();

  Stages& stages_;
  FinishedTiles finished_;
  Array out_;
  Shape tile_;
  Index inner_, step_;
  std::optional<Saved> noted_;  // what a save speaks of
  Stages::Kept kept_;
  std::optional<Copy> found_, pending_;
  Index slot_ = -1;  // of the last note
};

}  // namespace flagstone
