#pragma once
// The best labels of points by the leaves that they fall into, and by the means of labels.
#include "flagstone/algorithms/labels/model.hpp"
#include "flagstone/algorithms/labels/predict.hpp"

namespace flagstone::forest {

struct PredictForestOptions {
  Index k = 5;
  double alpha = 0.8, gamma = 30;  // alpha: what leaves count; the rest is the means'
  Index batch = 0;                 // points; 0: as many as the memory holds
  std::string who = "predict";
  std::shared_ptr<Checkpoint> checkpoint = {};  // as of label trees
};

/// ShapeError: k or columns do not fit.
void check_predict(const labels::Model& model, const sparse::CsrOperand& x, const PredictForestOptions& options);
/// labels, scores (m x k) := of each row of x the labels with the largest pf^alpha tail^(1 - alpha), ties by number, -1
/// and 0 where there are fewer: pf the mean of the leaves that it falls into, tail = 1 / (1 + exp(gamma (‖w‖² + 1 - 2
/// w·x))) of the mean w of a label and x at unit length (Jain et al. 2016). One path a tree; all trees in lock step
/// over a batch, one task for a block of nodes and a batch.
void predict(Graph& graph, const std::shared_ptr<const labels::Model>& model, const sparse::CsrOperand& x,
             const PredictForestOptions& options, const Array& labels, const Array& scores,
             labels::PredictNotes& notes);

}  // namespace flagstone::forest
