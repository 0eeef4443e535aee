#pragma once
// Classifiers of nodes whose points are too many for one task: block by block of the stored points.
#include "flagstone/algorithms/labels/classifier.hpp"

namespace flagstone::labels {

struct WideNode {
  NodePart part;
  TreeShape shape;
  std::shared_ptr<const std::vector<TreeOrder>> trees;
  kernel::SvmOptions svm;
  Kept kept;
};

/// Dual coordinate descent over the panels of X, one sweep of each a read (Yu, Hsieh, Chang, Lin 2010: blocks of points
/// that are on disk), until a read ends within eps or `sweeps` are made. Weights are (features + 1) x children float64,
/// in scratch where their room is needed, and a number a point and child. Returns the tile of the encoded chunk;
/// adds the reads to `reads`.
Array train_wide(Graph& graph, const Examples& examples, const WideNode& node, Index& reads);

}  // namespace flagstone::labels
