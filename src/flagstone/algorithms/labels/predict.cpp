#include "flagstone/algorithms/labels/predict.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "flagstone/algorithms/labels/level_pass.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::labels {
namespace {

constexpr Index most_batch = 8192;  // more points share little more of a model

/// Scores of the leaves' labels to the best labels.
struct BestLabels final : BestTask {
  void run(std::span<const Tile> tiles) const override;
  float told(float sum) const;
  std::shared_ptr<const Model> model;
  Index beam = 0, rows = 0;
  bool starts = false;  // the root is the leaf: nothing was reached before
};

void run_best(const Call& call, std::span<const Tile> tiles) { call.value_as<BestTask>().run(tiles); }

const bool entered = host_kernels().enter(Kernel::best_labels, run_best);

void BestLabels::run(std::span<const Tile> tiles) const {
  const auto* reached = starts ? nullptr : tiles[3].as<const kernel::Reached>();
  const Tile &scores = tiles[0], &labels_to = tiles[1], &scores_to = tiles[2];
  const Index slots = model->trees * beam, k = labels_to.shape[1];
  auto* sums = reinterpret_cast<float*>(tiles.back().data);
  std::fill_n(sums, model->labels, kernel::LabelSums::untouched);
  std::vector<std::int32_t> touched;
  touched.reserve(static_cast<std::size_t>(std::min(model->labels, slots * model->most_leaf)));
  kernel::LabelSums best(sums, touched);
  for (Index i = 0; i < rows; ++i) {
    for (Index slot = 0; slot < slots; slot += starts ? beam : 1) {
      const std::int32_t node = reached ? reached[i * slots + slot].node : 0;
      const auto& leaves = model->leaves[static_cast<std::size_t>(slot / beam)];
      if (node < 0 || std::cmp_greater_equal(node, leaves.size())) continue;
      const auto [first, n] = leaves[static_cast<std::size_t>(node)];
      const auto* from = scores.as<const float>() + (i * slots + slot) * model->most_leaf;
      const std::int32_t* labels = model->label_at.data() + slot / beam * model->labels + first;
      for (std::int32_t j = 0; j < n; ++j) best.add(labels[j], from[j]);
    }
    auto* found = reinterpret_cast<float*>(scores_to.data + i * scores_to.strides[0]);
    const Index there = best.take(k, reinterpret_cast<std::int32_t*>(labels_to.data + i * labels_to.strides[0]), found);
    for (Index j = 0; j < k; ++j) found[j] = j < there ? told(found[j]) : 0;
  }
}

/// log Σ exp s over the trees as a score: the mean of what each gives.
float BestLabels::told(float sum) const {
  const auto trees = static_cast<float>(model->trees);
  return model->exponential ? std::exp(sum) / trees : sum - std::log(trees);
}

class Predicting {
 public:
  Predicting(Graph& graph, const std::shared_ptr<const Model>& model, const sparse::CsrOperand& x,
             const PredictLabelsOptions& options, const Array& labels, const Array& scores)
      : graph_(graph),
        model_(model),
        x_(x),
        options_(options),
        results_(graph, labels, scores, options.checkpoint),
        held_(graph.charge(model->held_bytes())) {}

  void add(PredictNotes& notes) {
    notes.batch = batch_rows();
    results_.add(x_.stored, notes, [this](std::span<const CsrPanelRange> batches) { add_group(batches); });
  }

 private:
  Index slots() const { return model_->trees * options_.beam; }
  /// The states of a point: two beams, scores of leaves; its values as they are stored and as they are used; pairs.
  double point_bytes() const {
    const double values = static_cast<double>(x_.stored.nnz) / std::max(1.0, static_cast<double>(x_.stored.rows));
    const double state = static_cast<double>(slots()) * (24 + 4 * static_cast<double>(model_->most_leaf));
    return 20 * values + state + 8 * static_cast<double>(options_.k);
  }
  Index batch_rows() const {
    const auto whole = [](double rows) {
      const auto most = static_cast<Index>(std::clamp(rows, 1.0, static_cast<double>(most_batch)));
      return std::max(result_rows, most / result_rows * result_rows);
    };
    if (options_.batch > 0) return ceil_div(options_.batch, result_rows) * result_rows;
    const double workers = graph_.workers();
    const double table = 4.0 * static_cast<double>(model_->features) + 20e6;  // of a task, with its block
    const double room = 0.7 * static_cast<double>(graph_.budget()) - workers * table;
    const double all = std::ceil(static_cast<double>(x_.matrix.rows) / workers);  // one for each worker
    return whole(std::min(room / (workers * point_bytes()), all + static_cast<double>(result_rows) - 1));
  }

  /// Batches that go through the levels together.
  void add_group(std::span<const CsrPanelRange> batches) {
    std::vector<Array> now(batches.size());
    for (std::size_t level = 0; level < model_->levels.size(); ++level) {
      const bool leaf = level + 1 == model_->levels.size();
      std::vector<Array> next;
      for (const CsrPanelRange& batch : batches) {
        const Index width = leaf ? slots() * model_->most_leaf : 2 * slots();
        const Shape shape{batch.row_end - batch.row, width};
        next.push_back(graph_.temporary(shape, Dtype::float32, shape));
      }
      const auto& blocks = model_->levels[level];
      for (const Block& block : blocks)
        for (std::size_t b = 0; b < batches.size(); ++b) {
          auto pass = std::make_shared<LevelPass>(model_, x_, batches[b], block);
          pass->descent = {static_cast<float>(options_.discount), model_->power};
          pass->beam = options_.beam, pass->starts = level == 0, pass->leaf = leaf, pass->who = options_.who;
          pass->begins = &block == &blocks.front();
          add_level_pass(graph_, pass, now[b], next[b], 1 / static_cast<double>(blocks.size()));
        }
      if (leaf)
        for (std::size_t b = 0; b < batches.size(); ++b) add_best(batches[b], now[b], next[b]);
      now = std::move(next);
    }
  }

  void add_best(const CsrPanelRange& batch, const Array& reached, const Array& scores) {
    auto value = std::make_shared<BestLabels>();
    value->model = model_, value->beam = options_.beam, value->rows = batch.row_end - batch.row;
    value->starts = model_->levels.size() == 1;
    const Box rows{{batch.row, 0}, {value->rows, options_.k}};
    TaskSpec task;
    task.name = "best_labels";
    task.accesses = {last(read({scores, whole(scores.shape())})), once(write({results_.labels(), rows})),
                     once(write({results_.scores(), rows}))};
    if (!value->starts) task.accesses.push_back(last(read({reached, whole(reached.shape())})));
    const auto touched = std::min(model_->labels, slots() * model_->most_leaf);
    task.accesses.push_back(scratch(static_cast<std::size_t>(model_->labels + 2 * touched) * 4 + 64));
    const double looked = static_cast<double>(value->rows * slots() * model_->most_leaf);
    task.cost = seconds_of(10e-9 * looked);
    task.calls = {Call(Kernel::best_labels, Dtype::float32, {TilePart{0}})};
    task.calls[0].value = value;
    graph_.add(std::move(task));
  }

  Graph& graph_;
  std::shared_ptr<const Model> model_;
  const sparse::CsrOperand& x_;
  const PredictLabelsOptions& options_;
  PredictResults results_;
  Charge held_;
};

}  // namespace

PredictResults::PredictResults(Graph& graph, const Array& labels, const Array& scores,
                               std::shared_ptr<Checkpoint> checkpoint)
    : graph_(graph),
      labels_(labels),
      scores_(scores),
      batch_before_(Stages::begun_before<std::vector<Index>>(graph.planning() ? nullptr : checkpoint.get(), "batch")),
      stages_(graph, std::move(checkpoint)),
      labels_done_(stages_, labels, {result_rows, labels.shape()[1]}, "labels"),
      scores_done_(stages_, scores, {result_rows, labels.shape()[1]}, "scores") {}

void PredictResults::add(const CsrMatrix& points, PredictNotes& notes,
                         const std::function<void(std::span<const CsrPanelRange>)>& add_group) {
  if (batch_before_) notes.batch = std::min(notes.batch, batch_before_->front());
  stages_.begun_with("batch", std::vector<Index>{notes.batch});
  auto batches = batches_of(graph_, points, notes.batch);
  std::erase_if(batches, [&](const CsrPanelRange& batch) {
    return labels_done_.holds(rows(batch)) && scores_done_.holds(rows(batch));
  });
  const auto side_by_side = static_cast<std::size_t>(std::max(1, graph_.workers()));
  notes.batches = static_cast<Index>(batches.size());
  for (std::size_t first = 0; first < batches.size(); first += side_by_side, ++notes.groups) {
    const auto group = std::span(batches).subspan(first, std::min(side_by_side, batches.size() - first));
    add_group(group);
    for (const CsrPanelRange& batch : group) labels_done_.finish(rows(batch)), scores_done_.finish(rows(batch));
    if (first + group.size() < batches.size()) stages_.offer();
  }
  graph_.barrier();
}

void check_predict(const Model& model, const sparse::CsrOperand& x, const PredictLabelsOptions& options) {
  const std::string given = options.who + ": ";
  if (x.matrix.cols != model.features)
    throw ShapeError(given + "X has " + std::to_string(x.matrix.cols) + " columns and the model " +
                     std::to_string(model.features) + " features; as many are needed.");
  if (x.rows) throw ShapeError(given + "X is a choice of rows; store it first (fl.convert).");
  if (options.k < 1 || options.k > model.labels)
    throw ShapeError(given + "k is " + std::to_string(options.k) + " and the model has " +
                     std::to_string(model.labels) + " labels; k must lie between 1 and that.");
  if (options.beam < 1 || model.trees * options.beam > 65535)
    throw ShapeError(given + "beam is " + std::to_string(options.beam) + "; between 1 and " +
                     std::to_string(65535 / std::max<Index>(1, model.trees)) + " is needed.");
}

void predict(Graph& graph, const std::shared_ptr<const Model>& model, const sparse::CsrOperand& x,
             const PredictLabelsOptions& options, const Array& labels, const Array& scores, PredictNotes& notes) {
  check_predict(*model, x, options);
  if (x.matrix.rows == 0) return;
  Predicting(graph, model, x, options, labels, scores).add(notes);
}

}  // namespace flagstone::labels
