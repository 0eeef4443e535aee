#include "flagstone/algorithms/forest/predict.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/forest/forest_pass.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::forest {
namespace {

using labels::LevelPass;
using labels::Model;

constexpr Index most_batch = 8192;  // more points share little more of a model

/// What the kernel best_labels runs of a forest.
struct Choosing final : labels::BestTask {
  std::shared_ptr<const Model> model;
  Index rows = 0, leaves = 0, candidates = 0;

  /// Leaves of all trees to the labels that they have, by number: the mean of their shares.
  void merge(std::span<const Tile> tiles) const {
    const auto* found = tiles[0].as<const Reached>();
    auto* to = tiles[1].as<Reached>();
    auto* sums = reinterpret_cast<float*>(tiles.back().data);
    auto* seen = reinterpret_cast<std::int32_t*>(sums + model->labels);
    std::fill_n(sums, model->labels, 0.0F);
    for (Index i = 0; i < rows; ++i, found += leaves, to += candidates) {
      Index n = 0;
      for (Index e = 0; e < leaves; ++e) {
        const auto [label, share] = found[e];
        if (label < 0 || !(share > 0)) continue;
        if (sums[label] == 0) seen[n++] = label;
        sums[label] += share;
      }
      std::sort(seen, seen + n);
      std::fill_n(to, candidates, Reached{});
      for (Index j = 0; j < n; ++j) {
        to[j] = {seen[j], sums[seen[j]] / static_cast<float>(model->trees)};
        sums[seen[j]] = 0;
      }
    }
  }

  void choose(std::span<const Tile> tiles) const {
    const Tile &labels_to = tiles[1], &scores_to = tiles[2];
    const Index k = labels_to.shape[1];
    auto* best = reinterpret_cast<Reached*>(tiles.back().data);
    for (Index i = 0; i < rows; ++i) {
      const auto* from = tiles[0].as<const Reached>() + i * candidates;
      const auto end = std::copy_if(from, from + candidates, best, [](const Reached& one) { return one.node >= 0; });
      const auto number = std::min<Index>(k, end - best);
      std::partial_sort(best, best + number, end, [](const Reached& a, const Reached& b) {
        return a.score > b.score || (a.score == b.score && a.node < b.node);
      });
      auto* labels = reinterpret_cast<std::int32_t*>(labels_to.data + i * labels_to.strides[0]);
      auto* scores = reinterpret_cast<float*>(scores_to.data + i * scores_to.strides[0]);
      for (Index j = 0; j < k; ++j) {
        labels[j] = j < number ? best[j].node : -1;
        scores[j] = j < number ? best[j].score : 0;
      }
    }
  }

  void run(std::span<const Tile> tiles) const override { leaves > 0 ? merge(tiles) : choose(tiles); }
};

class Predicting {
 public:
  Predicting(Graph& graph, const std::shared_ptr<const Model>& model, const sparse::CsrOperand& x,
             const PredictForestOptions& options, const Array& labels, const Array& scores)
      : graph_(graph),
        model_(model),
        x_(x),
        options_(options),
        results_(graph, labels, scores, options.checkpoint),
        candidates_(std::min(model->labels, model->trees * model->most_leaf)),
        held_(graph.charge(model->held_bytes())) {}

  void add(labels::PredictNotes& notes) {
    notes.batch = batch_rows();
    results_.add(x_.stored, notes, [this](Batches batches) { add_group(batches); });
  }

 private:
  using Batches = std::span<const CsrPanelRange>;
  bool with_tail() const { return options_.alpha < 1; }
  Index leaf_entries() const { return model_->trees * model_->most_leaf; }

  Index batch_rows() const {
    const auto whole = [](double rows) {
      const auto most = static_cast<Index>(std::clamp(rows, 1.0, static_cast<double>(most_batch)));
      return std::max(labels::result_rows, most / labels::result_rows * labels::result_rows);
    };
    if (options_.batch > 0) return ceil_div(options_.batch, labels::result_rows) * labels::result_rows;
    const double values = static_cast<double>(x_.stored.nnz) / std::max(1.0, static_cast<double>(x_.stored.rows));
    const double point = 20 * values + 16.0 * static_cast<double>(model_->trees) +
                         8.0 * static_cast<double>(leaf_entries() + 4 * candidates_ + options_.k);
    const double workers = graph_.workers();
    const double table = 4.0 * static_cast<double>(model_->features) + 20e6;  // of a task, with its block
    const double room = 0.7 * static_cast<double>(graph_.budget()) - workers * table;
    const double all = std::ceil(static_cast<double>(x_.matrix.rows) / workers);  // one for each worker
    return whole(std::min(room / (workers * point), all + static_cast<double>(labels::result_rows) - 1));
  }

  Array reached(const CsrPanelRange& batch, Index of_a_point) {
    const Shape shape{batch.row_end - batch.row, 2 * of_a_point};
    return graph_.temporary(shape, Dtype::float32, shape);
  }

  template <class Pass, class Setup>
  std::vector<Array> pass(Batches batches, const std::vector<labels::Block>& blocks, const std::vector<Array>& now,
                          Index wide, double share, Setup&& setup) {
    std::vector<Array> next;
    for (const CsrPanelRange& batch : batches) next.push_back(reached(batch, wide));
    for (const labels::Block& block : blocks)
      for (std::size_t b = 0; b < batches.size(); ++b) {
        auto one = std::make_shared<Pass>(model_, x_, batches[b], block);
        one->beam = 1, one->who = options_.who, one->begins = &block == &blocks.front();
        setup(*one);
        labels::add_level_pass(graph_, one, now[b], next[b], share / static_cast<double>(blocks.size()));
      }
    return next;
  }

  /// Batches that go through the forest together.
  void add_group(Batches batches) {
    std::vector<Array> now(batches.size());
    if (!model_->levels.empty()) {
      const double turns = 4 + 2 * std::log2(1 + static_cast<double>(model_->depth));
      now = pass<RoutePass>(batches, model_->levels[0], now, model_->trees, turns, [](RoutePass&) {});
    }
    now = pass<LeafPass>(batches, model_->leaf_vectors, now, leaf_entries(), 0.05,
                         [&](LeafPass& one) { one.starts = model_->levels.empty(); });
    for (std::size_t b = 0; b < batches.size(); ++b) now[b] = merge(batches[b], now[b]);
    if (with_tail())
      now = pass<TailPass>(batches, model_->tail, now, candidates_, 1, [&](TailPass& one) {
        one.beam = one.places = candidates_, one.unit = true;
        one.alpha = options_.alpha, one.gamma = options_.gamma;
      });
    for (std::size_t b = 0; b < batches.size(); ++b) choose(batches[b], now[b]);
  }

  std::shared_ptr<Choosing> choosing(const CsrPanelRange& batch, Index leaves) const {
    auto value = std::make_shared<Choosing>();
    value->model = model_, value->rows = batch.row_end - batch.row;
    value->leaves = leaves, value->candidates = candidates_;
    return value;
  }
  void add_task(const char* name, std::vector<Access> accesses, const std::shared_ptr<Choosing>& value, double looked) {
    TaskSpec task;
    task.name = name;
    task.accesses = std::move(accesses);
    task.cost = labels::seconds_of(5e-9 * looked * static_cast<double>(value->rows));
    task.calls = {Call(Kernel::best_labels, Dtype::float32, {TilePart{0}})};
    task.calls[0].value = value;
    graph_.add(std::move(task));
  }

  Array merge(const CsrPanelRange& batch, const Array& leaves) {
    const Array made = reached(batch, candidates_);
    const std::size_t memory = 8 * static_cast<std::size_t>(model_->labels);
    add_task("merge_leaves",
             {last(read({leaves, whole(leaves.shape())})), again(write({made, whole(made.shape())})), scratch(memory)},
             choosing(batch, leaf_entries()), static_cast<double>(leaf_entries()));
    return made;
  }
  void choose(const CsrPanelRange& batch, const Array& found) {
    const Box rows{{batch.row, 0}, {batch.row_end - batch.row, options_.k}};
    add_task("best_labels",
             {last(read({found, whole(found.shape())})), once(write({results_.labels(), rows})),
              once(write({results_.scores(), rows})), scratch(8 * static_cast<std::size_t>(candidates_))},
             choosing(batch, 0), static_cast<double>(candidates_));
  }

  Graph& graph_;
  std::shared_ptr<const Model> model_;
  const sparse::CsrOperand& x_;
  const PredictForestOptions& options_;
  labels::PredictResults results_;
  Index candidates_;
  Charge held_;
};

}  // namespace

void check_predict(const Model& model, const sparse::CsrOperand& x, const PredictForestOptions& options) {
  labels::check_predict(model, x, {options.k, 1, 1, options.batch, options.who});
  if (model.trees * model.most_leaf > 65535 || model.most_leaf < 1)
    throw FormatError(options.who + ": " + model.path + ": its leaves have " + std::to_string(model.most_leaf) +
                      " labels; the model is damaged, write or copy it again.");
}

void predict(Graph& graph, const std::shared_ptr<const Model>& model, const sparse::CsrOperand& x,
             const PredictForestOptions& options, const Array& labels, const Array& scores,
             labels::PredictNotes& notes) {
  check_predict(*model, x, options);
  if (x.matrix.rows == 0) return;
  Predicting(graph, model, x, options, labels, scores).add(notes);
}

}  // namespace flagstone::forest
