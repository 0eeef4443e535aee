#pragma once
// The best labels of points, by beams through all trees of a model: one task for a level's block and a batch.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "flagstone/algorithms/labels/model.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::labels {

struct PredictLabelsOptions {
  Index k = 5, beam = 10;
  double discount = 1;
  Index batch = 0;  // points; 0: as many as the memory holds
  std::string who = "predict";
  std::shared_ptr<Checkpoint> checkpoint = {};  // where batches are noted whose results are written
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

/// Labels and scores as they come, batch after batch. Make it before graph.budget() is asked.
class PredictResults {
 public:
  PredictResults(Graph& graph, const Array& labels, const Array& scores, std::shared_ptr<Checkpoint> checkpoint);
  const Array& labels() const { return labels_; }
  const Array& scores() const { return scores_; }

  /// Of batches of notes.batch points those that no dead process noted, in groups of as many as there are workers: each
  /// group reads the model once. The dead process's batches where these are not larger, so that none is noted in part.
  void add(const CsrMatrix& points, PredictNotes& notes,
           const std::function<void(std::span<const CsrPanelRange>)>& add_group);

 private:
  Box rows(const CsrPanelRange& batch) const {
    return {{batch.row, 0}, {batch.row_end - batch.row, labels_.shape()[1]}};
  }

  Graph& graph_;
  Array labels_, scores_;
  std::optional<std::vector<Index>> batch_before_;
  Stages stages_;
  FinishedTiles labels_done_, scores_done_;
};

/// ShapeError: k, beam or columns do not fit.
void check_predict(const Model& model, const sparse::CsrOperand& x, const PredictLabelsOptions& options);
/// labels, scores (m x k, int32 and float32) := of each row of x the labels with the largest scores, ties by number, -1
/// and 0 where there are fewer. Batches go through the levels in lock step, as many as there are workers: the model is
/// read once for them. 2 flops for each value of a point that meets a weight. With a checkpoint a killed run goes on
/// behind the last group that was noted.
void predict(Graph& graph, const std::shared_ptr<const Model>& model, const sparse::CsrOperand& x,
             const PredictLabelsOptions& options, const Array& labels, const Array& scores, PredictNotes& notes);

}  // namespace flagstone::labels
