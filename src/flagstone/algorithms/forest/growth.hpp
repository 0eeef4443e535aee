#pragma once
// One tree of a forest, grown from points in memory: one task until its room for nodes is used, then the next one.
#include "flagstone/algorithms/labels/buckets.hpp"
#include "flagstone/algorithms/labels/classifier.hpp"
#include "flagstone/algorithms/labels/model_writer.hpp"

namespace flagstone::forest {

struct GrowthOptions {
  Index max_leaf = 10, leaf_labels = 100;  // points of a leaf; labels that one stores
  double cost = 1, eps = 0.01;
  Index steps = 10;  // of Newton
  std::uint64_t seed = 0;
  bool small_weights = false;         // int8
  Index most_grown = Index{1} << 14;  // nodes of one task: a constant, because nodes are stored task by task
};

/// A node that was made, and where its weights lie in the tile.
struct Grown {
  Index level = 0, node = 0, first = 0;  // first: the left child, the right one is behind it; of a leaf -1
  Index kept = 0, offset = 0;            // weights, or labels of a leaf
};

/// Tiles: the bucket, the state of the tree (made by the first task), the nodes that this one grows; where `carries`
/// the state before it, which stays as it is; then scratch.
struct Growth final : labels::NodeTask {
  GrowthOptions options;
  labels::BucketSize size;
  Index features = 0, labels = 0, tree = 0;
  std::shared_ptr<const std::vector<double>> worth;  // of each label
  bool begins = false, carries = false;

  std::size_t scratch_bytes() const;
  std::size_t state_bytes() const;
  std::size_t room_bytes() const;
  void run(std::span<const Tile> tiles) const override;

  /// What a tile of nodes holds, and whether the tree of a state has nodes that wait.
  static std::span<const Grown> grown(const Tile& nodes);
  static bool waits(const Tile& state);
  labels::EncodedSize encoded(const Grown& one) const;
};

}  // namespace flagstone::forest
