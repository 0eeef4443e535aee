#pragma once
// The best labels of points, by beams through all trees of a model: one task for a level's block and a batch.
#include "flagstone/algorithms/labels/model.hpp"

namespace flagstone::labels {

struct PredictLabelsOptions {
  Index k = 5, beam = 10;
  double discount = 1;
  Index batch = 0;  // points; 0: as many as the memory holds
  std::string who = "predict";
};
struct PredictNotes {
  Index batch = 0, batches = 0;
  Index groups = 0;  // reads of the model
};

/// What the kernel best_labels runs.
struct BestTask : CallValue {
  virtual void run(std::span<const Tile> tiles) const = 0;
};

/// Chunks of the results have so many rows; batches have whole ones of them.
inline constexpr Index result_rows = 64;

/// ShapeError: k, beam or columns do not fit.
void check_predict(const Model& model, const sparse::CsrOperand& x, const PredictLabelsOptions& options);
/// labels, scores (m x k, int32 and float32) := of each row of x the labels with the largest scores, ties by number, -1
/// and 0 where there are fewer. Batches go through the levels in lock step, as many as there are workers: the model is
/// read once for them. 2 flops for each value of a point that meets a weight.
void predict(Graph& graph, const std::shared_ptr<const Model>& model, const sparse::CsrOperand& x,
             const PredictLabelsOptions& options, const Array& labels, const Array& scores, PredictNotes& notes);

}  // namespace flagstone::labels
