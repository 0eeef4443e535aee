#pragma once
// One block of one level, and the points of one batch: what a task of an inference is.
#include "flagstone/algorithms/labels/joined_panel.hpp"
#include "flagstone/algorithms/labels/model.hpp"
#include "flagstone/kernel/labels/beam.hpp"

namespace flagstone::labels {

/// Tiles of the task: those of the reader and the block, then the beams that come in (but for level 0), what goes out.
/// Forests take the same way with other rules: what a meeting of a point and a chunk leaves.
struct LevelPass : CallValue {
  LevelPass(std::shared_ptr<const Model> of, const sparse::CsrOperand& x, const CsrPanelRange& batch,
            const Block& block);

  std::shared_ptr<const Model> model;
  sparse::PanelReader points;
  mutable BlockReader weights;  // loaded by the one task that has it
  kernel::Descent descent;
  Index beam = 0;
  bool starts = false, leaf = false, begins = false;  // level 0; labels; the first block of the level
  std::string who;
  int in = -1, out = -1;

  Index places = 0;   // of a point, where they are no beams of all trees
  bool unit = false;  // rows are divided by their lengths

  Index slots() const { return places > 0 ? places : model->trees * beam; }
  std::size_t scratch_bytes() const;
  /// Pairs of a point and a chunk, at most.
  std::size_t most_pairs() const;
  void access(std::vector<Access>& accesses);
  void run(std::span<const Tile> tiles) const;

 protected:
  struct Pair {
    std::uint32_t row;
    std::uint16_t slot;
  };
  struct Meeting {
    const Chunk& chunk;
    const kernel::ChunkView& view;
    Pair pair;
    const kernel::Reached* reached;  // null: the pass starts
    const float* products;
  };
  /// Before the first block: what is there where no chunk is met.
  virtual void begin(std::span<const Tile> tiles) const;
  virtual void open(const kernel::ChunkView&) const {}
  /// Where points are before they meet chunks; null: at roots.
  virtual const kernel::Reached* reached(std::span<const Tile> tiles) const {
    return in < 0 ? nullptr : tiles[static_cast<std::size_t>(in)].as<const kernel::Reached>();
  }
  /// Whether points go on in the same block, until none does.
  virtual bool goes_on() const { return false; }
  virtual bool multiplies() const { return true; }
  virtual void meet(const Meeting& met, const Tile& to) const;

 private:
  struct Memory;
  void find_pairs(const Memory& at, Index rows, const kernel::Reached* in) const;
  void score(const Memory& at, const kernel::CsrRows& rows, std::span<const Tile> tiles) const;
  template <class Column>
  void score_pairs(const Memory& at, const kernel::CsrRows& rows, std::span<const Tile> tiles) const;
};

/// Consecutive batches of about so many points that a graph has tasks for: all; where a plan looks for the least
/// memory, whose batches are many, the sixteen with the most values, since the others take no more.
std::vector<CsrPanelRange> batches_of(const Graph& graph, const CsrMatrix& points, Index rows);

/// Adds a pass for these arrays: `in` empty at level 0.
void add_level_pass(Graph& graph, const std::shared_ptr<LevelPass>& pass, const Array& in, const Array& out,
                    double pairs_share);

}  // namespace flagstone::labels
