#pragma once
// Training of forests whose nodes rank labels: PfastreXML.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "flagstone/algorithms/forest/growth.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::forest {

struct TrainForestOptions {
  Index trees = 50;
  GrowthOptions growth;
  std::optional<std::pair<double, double>> propensity = std::pair(0.55, 1.5);  // A and B; none: labels weigh the same
  Index small = Index{1} << 22;                                                // stored values that one task holds
  std::string directory;                                                       // of the model; unused in plans
  std::shared_ptr<Checkpoint> checkpoint;                                      // where finished trees are noted
};
struct ForestNotes {
  Index nodes = 0, leaves = 0, reads = 0, deepest = 0;
  Index wide = 0;  // of the nodes, those that were parted by reads of X
};

/// ShapeError: numbers out of range.
void check_train(const labels::Examples& examples, Index labels, const TrainForestOptions& options);
/// Writes a model's arrays into options.directory. Where X has at most options.small values it is read twice; trees are
/// tasks, some of them side by side. Where it has more, nodes with more are parted by reads (WideNodes). A killed
/// training goes on behind the last level of wide nodes, or the last tasks of sixteen trees or subtrees, that a save
/// tells of: inside them.
void train(Graph& graph, const labels::Examples& examples, const TrainForestOptions& options, ForestNotes& notes);

}  // namespace flagstone::forest
