#include "flagstone/algorithms/cluster/minibatch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/base/error.hpp"

namespace flagstone::cluster {
namespace {

constexpr Index most_panels = 4;           // of a batch: side by side
constexpr Index enough_batches = 8;        // of a pass, where there are as many panels
constexpr std::uint32_t purpose = 0x6d62;  // of the draws, beside those of the seeds

void zero(const Array& array) { std::fill_n(numbers(array), count(array.shape()), 0.0); }

class Batches {
 public:
  Batches(Graph& graph, const Source& points, const Array& centres, const Array& met, const MinibatchOptions& options)
      : graph_(graph),
        points_(points),
        options_(options),
        k_(centres.shape()[0]),
        d_(centres.shape()[1]),
        centres_(graph, centres),
        met_(met),
        totals_(graph.allocate({1, k_ + 3}, Dtype::float64)),
        sums_(graph.allocate({k_, d_}, Dtype::float64)),
        before_(graph.allocate({k_, d_}, Dtype::float64)) {}

  void pass(Progress& progress) {
    const std::vector<Index> order = drawn(progress.iteration);
    last_ = progress.iteration > 0 ? progress.inertia : -1;
    const Index panels = points_.panels,
                each = options_.whole ? panels : std::clamp<Index>(panels / enough_batches, 1, most_panels);
    if (!graph_.planning()) {
      std::copy_n(numbers(centres_.exact()), k_ * d_, numbers(before_));
      progress.weights.assign(static_cast<std::size_t>(k_), 0.0), progress.inertia = 0;
      mean_.assign(static_cast<std::size_t>(d_), 0.0), squares_ = 0;
    }
    for (Index at = 0; at < panels; at += each) {
      const auto from = order.begin() + at;
      const std::vector<Index> next(from + std::min(each, panels - at), from + std::min(2 * each, panels - at));
      batch({from, from + std::min(each, panels - at)}, next, progress);
    }
    ++progress.iteration;
    if (!graph_.planning()) finish(progress);
  }

 private:
  /// Panels in the order of this pass: by their keys.
  std::vector<Index> drawn(Index pass) const {
    std::vector<Index> order(static_cast<std::size_t>(points_.panels));
    std::iota(order.begin(), order.end(), Index{0});
    std::vector<std::uint64_t> keys(order.size());
    const auto low = static_cast<std::uint32_t>(options_.seed), high = static_cast<std::uint32_t>(options_.seed >> 32);
    kernel::random_words({{low, high ^ purpose}, static_cast<std::uint32_t>(pass)}, 0, points_.panels, keys.data());
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
      return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
    });
    return order;
  }

  void batch(std::vector<Index> panels, const std::vector<Index>& next, Progress& progress) {
    centres_.round(graph_, k_, points_.shifts());
    if (!graph_.planning()) zero(totals_), zero(sums_);
    points_.assign(graph_, {.centres = &centres_, .panels = std::move(panels), .sums = sums_, .totals = totals_});
    points_.fetch(graph_, next);  // while this batch is multiplied
    graph_.barrier();
    if (graph_.planning()) return;
    note(progress);
    move();
  }

  /// What the batch tells of its points, before the centres move.
  void note(Progress& progress) {
    const double* totals = numbers(totals_);
    const double *sums = numbers(sums_), *centres = numbers(centres_.exact());
    double all = 0, along = 0, length = 0;
    for (Index j = 0; j < k_; ++j) progress.weights[static_cast<std::size_t>(j)] += totals[j], all += totals[j];
    progress.inertia += totals[k_ + static_cast<Index>(Total::inertia)];
    progress.decided += totals[k_ + static_cast<Index>(Total::decided)];
    for (Index l = 0; l < d_; ++l) {
      double sum = 0, shift = 0;
      for (Index j = 0; j < k_; ++j) sum += sums[j * d_ + l], shift += centres[j * d_ + l] / static_cast<double>(k_);
      if (!points_.shifts()) shift = 0;
      mean_[static_cast<std::size_t>(l)] += sum;
      along += shift * sum, length += shift * shift;
    }
    // Σ w ‖x‖² of Σ w ‖x - s‖²
    squares_ += totals[k_ + static_cast<Index>(Total::spread)] + 2 * along - all * length;
  }

  void move() {
    const double *weights = numbers(totals_), *sums = numbers(sums_);
    double *met = numbers(met_), *centres = numbers(centres_.exact());
    for (Index j = 0; j < k_; ++j) {
      if (!(weights[j] > 0)) continue;
      met[j] += weights[j];
      double* centre = centres + j * d_;
      for (Index l = 0; l < d_; ++l) centre[l] += (sums[j * d_ + l] - weights[j] * centre[l]) / met[j];
      if (!options_.lloyd.unit) continue;
      const double length = std::sqrt(std::inner_product(centre, centre + d_, centre, 0.0));
      for (Index l = 0; length > 0 && l < d_; ++l) centre[l] /= length;
    }
  }

  /// Whether the centres stayed during the pass, Σ ‖Δc‖² against tol times the mean variance of the columns, or the
  /// inertia, as the batches met it, fell by less than tol of itself.
  void finish(Progress& progress) {
    const double all = std::accumulate(progress.weights.begin(), progress.weights.end(), 0.0);
    check_pass(points_.asked.who, all, progress.inertia);
    double mean = 0, change = 0;
    for (const double sum : mean_) mean += (sum / all) * (sum / all);
    if (progress.least_move < 0)
      progress.least_move = options_.lloyd.tol * std::max(0.0, squares_ / all - mean) / static_cast<double>(d_);
    const double *centres = numbers(centres_.exact()), *before = numbers(before_);
    for (Index i = 0; i < k_ * d_; ++i) change += (centres[i] - before[i]) * (centres[i] - before[i]);
    const double gain = last_ - progress.inertia;  // batches pull centres about long after it has become nothing
    progress.converged =
        change <= progress.least_move || (options_.lloyd.tol > 0 && last_ > 0 && gain < options_.lloyd.tol * last_);
  }

  Graph& graph_;
  const Source& points_;
  MinibatchOptions options_;
  Index k_, d_;
  CentreArrays centres_;
  Array met_, totals_, sums_, before_;
  std::vector<double> mean_;  // sums of the columns in this pass
  double squares_ = 0;
  double last_ = -1;  // inertia of the pass before
};

}  // namespace

Progress minibatches(Graph& graph, const Source& points, const Array& centres, const Array& met,
                     const MinibatchOptions& options, Stages& stages) {
  Progress progress;
  Array moving = centres, weights = met;
  const auto kept = stages.keep("minibatches", [&](StateParts& parts) {
    parts.array("centres", moving);
    parts.array("met", weights);
    list_progress(parts, progress);
  });
  Batches batches(graph, points, centres, met, options);
  const Index most = graph.planning() ? planned_iterations(options.lloyd) : options.lloyd.iterations;
  while (progress.iteration < most && !progress.converged) {
    batches.pass(progress);
    stages.offer(static_cast<double>(progress.iteration) / static_cast<double>(most + 1));
  }
  return progress;
}

}  // namespace flagstone::cluster
