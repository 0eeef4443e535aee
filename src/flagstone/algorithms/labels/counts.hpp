#pragma once
// How many points and values labels and nodes have: what buckets and tasks are sized by.
#include "flagstone/algorithms/labels/buckets.hpp"
#include "flagstone/algorithms/labels/tree_shape.hpp"

namespace flagstone::labels {

/// A number of points, their values, their labels; in float64, in which they are added up.
struct Tally {
  double points = 0, values = 0, keys = 0;
  BucketSize size() const { return {static_cast<Index>(points), static_cast<Index>(values), static_cast<Index>(keys)}; }
};

/// Labels by tree: of each label the leaf that it is in, of each place the label.
struct TreeOrder {
  std::vector<std::int32_t> label_at, leaf_of;
};

/// Both ways, of the labels of all trees by place.
std::shared_ptr<const std::vector<TreeOrder>> tree_orders(const TreeShape& shape,
                                                          std::span<const std::int32_t> label_at);

/// One read of X and Y: of each label; the last one of all points. In a plan as if labels were alike.
std::vector<Tally> count_labels(Graph& graph, const Examples& examples, Index labels);
/// One read: of each node of all trees, a point once; tree by tree, level by level. In a plan as above.
std::vector<Tally> count_nodes(Graph& graph, const Examples& examples, const TreeShape& shape,
                               const std::shared_ptr<const std::vector<TreeOrder>>& trees);
/// The place of a node among those.
inline std::size_t node_place(const TreeShape& shape, Index tree, Index level, Index node) {
  const Index of_tree = (Index{2} << shape.depth) - 1;
  return static_cast<std::size_t>(tree * of_tree + (Index{1} << level) - 1 + node);
}

}  // namespace flagstone::labels
