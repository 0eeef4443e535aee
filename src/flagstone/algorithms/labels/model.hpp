#pragma once
// A model of label trees as it is stored: what tasks read of it.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/kernel/labels/chunk.hpp"

namespace flagstone::labels {

/// The weights of some children of one node, and where they lie among those of all.
struct Chunk {
  Index level = 0, tree = 0, node = 0;
  Index first = 0, children = 0;  // nodes of the next level; below a leaf places of the tree's order of labels
  Index row = 0, rows = 0, entry = 0, entries = 0;
  Index column = 0;  // of its first child among the scales
};
inline constexpr Index chunk_numbers = 10;
/// Of a forest: levels of vectors of labels (a row is a label), and of means of labels (a node is a label).
inline constexpr Index leaf_level = Index{1} << 20, tail_level = leaf_level + 1;

/// Chunks of one level that lie one behind the other: what one task reads at a time.
struct Block {
  std::vector<Chunk> chunks;  // by tree, node and first child
  Index row = 0, rows = 0, entry = 0, entries = 0, column = 0, columns = 0;
  Index most_rows = 0;   // of one chunk
  Index most_parts = 0;  // chunks of one node
};

struct ModelParts {
  std::string path;
  Index features = 0, labels = 0, trees = 0;
  bool unit = true;         // rows are divided by their lengths
  int power = 2;            // of the hinge
  bool exponential = true;  // scores are exp(s), else s
  bool forest = false;      // nodes send points left and right; rows of its leaves are labels
  Array steps, counts, children, weights;
  std::optional<Array> scales;
  Array chunks, order;  // int64: ten numbers a chunk; int32: labels of each tree by place
};

/// The parts with their table: 80 bytes a chunk and 4 a label and tree are in memory.
struct Model : ModelParts {
  explicit Model(ModelParts parts);
  std::vector<std::vector<Block>> levels;
  std::vector<Block> leaf_vectors, tail;  // of a forest, whose nodes of all depths are one level, parents first
  Index depth = 0;                        // nodes on the way to a leaf, at most
  std::vector<std::int32_t> label_at;     // trees x labels
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>>
      leaves;           // of each tree and leaf: first place, how many
  Index most_leaf = 0;  // labels of one leaf
  bool small() const { return scales.has_value(); }
  std::size_t held_bytes() const;
  /// How many leaves of a tree have k labels together whichever they are, of the tree where it takes the most; all
  /// where no number has.
  Index leaves_for(Index k) const;

  void take_forest(std::vector<Chunk> table);
  void take_trees(const std::vector<Chunk>& table);

  struct Streams {
    sparse::ElementStream steps, counts, children, weights, scales;
  };
  Streams streams;
};

/// Reads one block.
class BlockReader {
 public:
  BlockReader(const Model& model, const Block& block);
  void access(std::vector<Access>& accesses);
  std::size_t scratch_bytes() const;
  double decoded_bytes() const;
  /// Decodes it into `memory`; FormatError where something is out of range. chunk(i) is good from then on.
  void load(std::span<const Tile> tiles, std::byte* memory);
  kernel::ChunkView chunk(std::size_t i) const;
  const Block& block() const { return block_; }

 private:
  std::string path_;
  Index features_, labels_;
  Block block_;
  bool small_;
  sparse::RangeReader steps_, counts_, children_, weights_, scales_;
  kernel::ChunkView all_;
};

}  // namespace flagstone::labels
