#pragma once
// Nodes of more points than one task holds: parted by reads of X and Y, all of a level and of some trees together.
#include <functional>
#include <span>
#include <vector>

#include "flagstone/algorithms/forest/train.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::forest {

/// Points that one task holds, below a wide node.
struct Subtree {
  Index tree = 0, root = 0, level = 0;  // its root's number and level
  Index next = 0;                       // number of its second node; it has 2 · rows at most
  labels::BucketSize size;
};

/// Trees first, first + 1, ... of a forest, from their roots down to subtrees. What is known of a point and a tree is
/// five bytes, in memory or in scratch.
class WideNodes {
 public:
  using Keep = std::function<void(const labels::Chunk&, const labels::EncodedSize&, const std::byte*)>;

  WideNodes(Graph& graph, const labels::Examples& examples, const TrainForestOptions& options,
            std::shared_ptr<const std::vector<double>> worth, const labels::BucketSize& all, Index first, Index trees,
            Stages& stages);

  /// Chunks that a dead process handed over, of levels that are done.
  Index stored() const { return stored_; }
  /// Hands nodes over, parents first; returns the subtrees, tree by tree. Of a level: a read of Y for each round of
  /// sides, one of X for each step of the classifiers, one of both for the parts; then it may be saved:
  /// `offer`(levels).
  std::vector<Subtree> grow(const Keep& keep, ForestNotes& notes, const std::function<void(Index)>& offer);
  /// Points of subtrees [first, first + n), brought together: one read. Sizes are those of `subtrees`.
  std::vector<Array> fill(const std::vector<Subtree>& subtrees, std::size_t first, std::size_t n);

 private:
  struct Node {
    Index tree = 0, number = 0, level = 0;
    labels::BucketSize size;
  };
  /// What a node would be as a leaf, and whether it must be one.
  struct Means {
    std::vector<std::uint32_t> labels;
    std::vector<double> values;
    Index sides[2] = {};
  };
  struct Part {
    double rows = 0, values = 0, keys = 0;
  };

  Index columns() const { return examples_.features() + 1; }
  std::size_t together() const;
  std::vector<Means> split(std::size_t first, std::size_t n, ForestNotes& notes);
  Array fit(std::size_t first, std::size_t n, const std::vector<Means>& means, ForestNotes& notes);
  std::vector<Part> part(std::size_t first, std::size_t n, const Array& weights, ForestNotes& notes);
  void settle(std::size_t first, const std::vector<Means>& means, const Array& weights, const std::vector<Part>& parts,
              const Keep& keep, ForestNotes& notes);
  void take_means(const double* sums, Means& means) const;
  void keep_node(const Node& node, const float* weights, Index first_child, const Keep& keep);
  void keep_leaf(const Node& node, const Means& means, const Keep& keep);
  void keep_chunk(const labels::Chunk& chunk, const std::vector<std::uint32_t>& columns,
                  const std::vector<double>& values, Index cols, const Keep& keep);
  std::int32_t child(const Node& parent, Index number, const labels::BucketSize& size);
  void relabel();
  bool go_on();
  void begin(const labels::BucketSize& all);
  void open_points();
  void forget();
  void remove(Index level) const;
  template <class Task, class Prepare>
  void each_panel(const char* name, double seconds, Prepare&& prepare);

  Graph& graph_;
  const labels::Examples& examples_;
  const TrainForestOptions& options_;
  std::shared_ptr<const std::vector<double>> worth_;
  Index labels_, first_, trees_;
  Stages& stages_;
  std::vector<Array> at_, side_;                       // of each panel: rows x trees
  std::vector<std::unique_ptr<FinishedTiles>> saved_;  // of at_, which is another array after each level then
  Index level_ = 0, stored_ = 0;                       // levels that are done; their chunks
  Index told_ = -1;                                    // the level that the last save tells of
  std::vector<Node> wide_, next_;                      // of a level, and of the one below
  std::vector<Subtree> subtrees_;                      // in the order in which they were found
  std::vector<std::int32_t> becomes_;  // of each wide node and side: a node of the level below, -1, or a subtree
  std::vector<Index> numbers_;         // of each tree: nodes that have a number
  std::vector<std::size_t> order_;     // of subtrees, as they were returned: their number when found
  std::unique_ptr<Stages::Kept> kept_;
};

}  // namespace flagstone::forest
