#include "flagstone/algorithms/cluster/lloyd.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "flagstone/base/error.hpp"

namespace flagstone::cluster {
namespace {

// Of a sum of P panels, added from either end: a random walk of P roundings each way, with a margin of 4.
constexpr double rounding = 4 * std::numeric_limits<double>::epsilon();
constexpr Index usual_iterations = 30;  // beyond it few data sets move by more than 1e-4 of their variance

void zero(const Array& array) { std::fill_n(numbers(array), count(array.shape()), 0.0); }

class Iterations {
 public:
  /// Without `updates`: for label() alone.
  Iterations(Graph& graph, const Source& points, const Array& centres, const LloydOptions& options, bool updates)
      : graph_(graph),
        points_(points),
        options_(options),
        k_(centres.shape()[0]),
        d_(centres.shape()[1]),
        centres_(graph, centres),
        totals_(graph.allocate({1, k_ + 3}, Dtype::float64)) {
    if (!updates) return;
    sums_ = graph.allocate({k_, d_}, Dtype::float64);
    farthest_ = graph.allocate({points.panels, 4 * std::min(k_, most_far)}, Dtype::float64);
  }

  void iterate(Progress& progress) {
    pass(progress, {});
    if (!graph_.planning())
      update(progress);
    else if (points_.onto)
      points_.onto->project(graph_, sums_);
    ++progress.iteration;
  }
  /// The same pass without an update.
  void label(Progress& progress, const Array& labels) { pass(progress, labels); }

 private:
  void pass(Progress& progress, const Array& labels) {
    centres_.round(graph_, k_, points_.shifts());
    const bool backwards = progress.iteration % 2 == 1;  // what the last pass left in the cache comes first
    const Assignment one{.centres = &centres_,
                         .backwards = backwards,
                         .sums = sums_,
                         .totals = totals_,
                         .farthest = farthest_,
                         .labels = labels};
    if (!graph_.planning()) {
      zero(totals_);
      if (sums_) zero(sums_);
    }
    points_.assign(graph_, one);
    graph_.barrier();
    if (graph_.planning()) return;
    const double* totals = numbers(totals_);
    progress.weights.assign(totals, totals + k_);
    progress.inertia = totals[k_ + static_cast<Index>(Total::inertia)];
    progress.decided += totals[k_ + static_cast<Index>(Total::decided)];
  }

  void update(Progress& progress) {
    double* sums = numbers(sums_);
    std::vector<double> weights = progress.weights;
    if (progress.least_move < 0) progress.least_move = least_move(weights);
    const bool moved = fill_empty(weights);
    const double square = mean_square(weights);
    if (points_.onto) points_.onto->project(graph_, sums_);
    double change = 0, noise = 0;  // noise: Σ (‖c‖² + mean ‖x‖²), of which rounding² P is no move
    double* centres = numbers(centres_.exact());
    for (Index j = 0; j < k_; ++j) {
      const double weight = weights[static_cast<std::size_t>(j)];
      double* sum = sums + j * d_;
      double length = weight;
      if (options_.unit) length = std::sqrt(std::inner_product(sum, sum + d_, sum, 0.0));
      if (!(weight > 0) || !(length > 0)) continue;  // it stays where it is
      double of_centre = 0;
      for (Index l = 0; l < d_; ++l) {
        const double to = sum[l] / length, step = to - centres[j * d_ + l];
        change += step * step;
        of_centre += to * to;
        centres[j * d_ + l] = to;
      }
      noise += of_centre + square * (weight / length) * (weight / length);
    }
    noise *= rounding * rounding * static_cast<double>(points_.panels);
    progress.converged = !moved && change <= std::max(progress.least_move, noise);
  }

  /// Σ w ‖x - s‖² / Σ w.
  double mean_square(const std::vector<double>& weights) const {
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    return all > 0 ? numbers(totals_)[k_ + static_cast<Index>(Total::spread)] / all : 0;
  }

  /// tol times the mean variance of the columns: of Σ w ‖x - s‖² about a shift s, which is that of `centres_`.
  double least_move(const std::vector<double>& weights) const {
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (!(all > 0)) throw NumericalError("kmeans: all weights are zero; a positive one is needed.");
    const double* centres = numbers(centres_.exact());
    const double* sums = numbers(sums_);
    double beside = 0;
    for (Index l = 0; l < d_; ++l) {
      double mean = 0, shift = 0;
      for (Index j = 0; j < k_; ++j) mean += sums[j * d_ + l], shift += centres[j * d_ + l];
      const double off = mean / all - (points_.shifts() ? shift / static_cast<double>(k_) : 0);
      beside += off * off;
    }
    const double spread = numbers(totals_)[k_ + static_cast<Index>(Total::spread)];
    return options_.tol * std::max(0.0, spread / all - beside) / static_cast<double>(d_);
  }

  /// Clusters without points take those that are farthest from their centres, with their weight; true where one did.
  bool fill_empty(std::vector<double>& weights) {
    std::vector<Index> empty;
    for (Index j = 0; j < k_; ++j)
      if (!(weights[static_cast<std::size_t>(j)] > 0)) empty.push_back(j);
    if (empty.empty()) return false;
    const auto* offered = reinterpret_cast<const Far*>(numbers(farthest_));
    std::vector<Far> far(offered, offered + count(farthest_.shape()) / 4);
    std::erase_if(far, [](const Far& one) { return one.row < 0 || !(one.square > 0); });
    std::sort(far.begin(), far.end(), [](const Far& a, const Far& b) {
      return a.square > b.square || (a.square == b.square && a.row < b.row);
    });
    auto next = far.begin();
    bool moved = false;
    for (const Index j : empty) {
      while (next != far.end() && !(weights[static_cast<std::size_t>(next->label)] > next->weight)) ++next;
      if (next == far.end()) break;
      const auto from = static_cast<Index>(next->label);
      const std::vector<double> point = points_.row(graph_, static_cast<Index>(next->row));
      double* sums = numbers(sums_);
      for (Index l = 0; l < d_; ++l) {
        const double part = next->weight * point[static_cast<std::size_t>(l)];
        sums[from * d_ + l] -= part, sums[j * d_ + l] = part;
      }
      weights[static_cast<std::size_t>(from)] -= next->weight, weights[static_cast<std::size_t>(j)] = next->weight;
      ++next, moved = true;
    }
    return moved;
  }

  Graph& graph_;
  const Source& points_;
  LloydOptions options_;
  Index k_, d_;
  CentreArrays centres_;
  Array totals_;
  Array sums_, farthest_;  // empty where nothing is updated
};

}  // namespace

void list_progress(StateParts& parts, Progress& progress) {
  parts.values("weights", progress.weights);
  parts.value("iteration", progress.iteration);
  parts.value("inertia", progress.inertia);
  parts.value("decided", progress.decided);
  parts.value("least_move", progress.least_move);
  parts.value("converged", progress.converged);
}

Index planned_iterations(const LloydOptions& options) { return std::min(options.iterations, usual_iterations); }

Progress lloyd(Graph& graph, const Source& points, const Array& centres, const LloydOptions& options, Stages& stages) {
  Progress progress;
  Array moving = centres;
  const auto kept = stages.keep("lloyd", [&](StateParts& parts) {
    parts.array("centres", moving);
    list_progress(parts, progress);
  });
  Iterations iterations(graph, points, centres, options, true);
  const Index most = graph.planning() ? planned_iterations(options) : options.iterations;
  while (progress.iteration < most && !progress.converged) {
    iterations.iterate(progress);
    stages.offer(static_cast<double>(progress.iteration) / static_cast<double>(most + 1));
  }
  return progress;
}

void label(Graph& graph, const Source& points, const Array& centres, bool unit, const Array& labels,
           Progress& progress) {
  Iterations(graph, points, centres, {.unit = unit}, false).label(progress, labels);
}

}  // namespace flagstone::cluster
