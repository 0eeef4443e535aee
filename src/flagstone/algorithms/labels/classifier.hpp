#pragma once
// The classifiers of one node: columns of weights, one a child.
#include "flagstone/algorithms/labels/counts.hpp"
#include "flagstone/algorithms/labels/model_writer.hpp"
#include "flagstone/algorithms/labels/train.hpp"
#include "flagstone/kernel/labels/svm.hpp"

namespace flagstone::labels {

/// Some children of a node: nodes of the next level, or labels of a leaf.
struct NodePart {
  Index tree = 0, level = 0, node = 0;
  Index first = 0, children = 0;
  bool leaf = false;
};

/// Which points belong to a node, and which of its children.
class Membership {
 public:
  Membership(const TreeShape& shape, const TreeOrder& order, const NodePart& part)
      : shape_(shape), order_(order), part_(part) {}
  bool holds(const std::int32_t* labels, Index n) const;
  /// belongs[c] := whether a point with these labels has child c.
  void children(const std::int32_t* labels, Index n, bool* belongs) const;

 private:
  TreeShape shape_;
  const TreeOrder& order_;
  NodePart part_;
};

/// What of |w| is stored.
struct Kept {
  double threshold = 0;
  EncodedSize size;
};

/// What the kernel train_node runs.
struct NodeTask : CallValue {
  virtual void run(std::span<const Tile> tiles) const = 0;
};

/// One node of points that are in a bucket, trained by one task.
struct NodeTraining final : NodeTask {
  void run(std::span<const Tile> tiles) const override;
  TreeShape shape;
  std::shared_ptr<const std::vector<TreeOrder>> trees;
  NodePart part;
  BucketSize bucket, own;  // own: at most
  Index features = 0;
  kernel::SvmOptions svm;
  Kept kept;

  Index locals() const { return std::min(features, own.values) + 1; }
  std::size_t scratch_bytes() const;
};
/// Room of the chunk that a task makes, and the children that it may have.
EncodedSize encoded_size(Index locals, Index features, Index children, bool small);
Index children_at_a_time(Index locals);

/// A seed for a column.
std::uint64_t column_seed(std::uint64_t seed, const NodePart& part, Index child);

}  // namespace flagstone::labels
