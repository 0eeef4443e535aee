#pragma once
// Training of label trees: Parabel.
#include <memory>
#include <string>

#include "flagstone/algorithms/labels/joined_panel.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::labels {

struct TrainLabelsOptions {
  Index trees = 3, max_leaf = 100, sweeps = 20;
  double cost = 1, threshold = 0.1, eps = 0.1;
  std::uint64_t seed = 0;
  bool small_weights = false;    // int8
  Index small = Index{1} << 22;  // stored values that one task holds; a constant, so that bits depend on no limit
  std::string directory;         // of the model, which exists; unused in plans
  std::shared_ptr<Checkpoint> checkpoint;  // where trees, and the chunks that are stored, are noted
};
struct TrainNotes {
  Index depth = 0, nodes = 0, wide = 0;  // wide: nodes that were trained by passes over X
  Index reads = 0;                       // of X
  double labels_without = 0;             // points
};

/// ShapeError: numbers out of range.
void check_train(const Examples& examples, Index labels, const TrainLabelsOptions& options);
/// Writes a model's arrays into options.directory. Reads X and Y once for what is counted, and where X has more than
/// `small` values once more for as many buckets as are in memory; wide nodes once a sweep.
void train(Graph& graph, const Examples& examples, const TrainLabelsOptions& options, TrainNotes& notes);

}  // namespace flagstone::labels
