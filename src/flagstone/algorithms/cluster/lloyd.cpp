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
        k_(centres.shape()[0]),
        d_(centres.shape()[1]),
        centres_(graph, centres),
        moves_(points, k_, options),
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
    take_totals(progress, totals, k_);
    progress.decided += totals[k_ + static_cast<Index>(Total::decided)];
  }

  void update(Progress& progress) {
    double *sums = numbers(sums_), *centres = numbers(centres_.exact());
    moves_.begin(numbers(totals_), {reinterpret_cast<const Far*>(numbers(farthest_)),
                                    static_cast<std::size_t>(count(farthest_.shape()) / 4)});
    moves_.note(0, k_, sums, centres);
    for (const CentreMoves::Refill& refill : moves_.refills())
      moves_.refill(refill, points_.row(graph_, refill.row).data(), 0, k_, sums);
    if (points_.onto) points_.onto->project(graph_, sums_);
    moves_.move(0, k_, sums, centres, centres);
    moves_.finish(progress);
  }

  Graph& graph_;
  const Source& points_;
  Index k_, d_;
  CentreArrays centres_;
  CentreMoves moves_;
  Array totals_;
  Array sums_, farthest_;  // empty where nothing is updated
};

}  // namespace

CentreMoves::CentreMoves(const Source& points, Index k, const LloydOptions& options)
    : k_(k),
      d_(points.cols),
      panels_(points.panels),
      shifts_(points.shifts()),
      who_(points.asked.who),
      options_(options) {}

void CentreMoves::begin(const double* totals, std::span<const Far> offered) {
  weights_.assign(totals, totals + k_);
  all_ = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  check_pass(who_, all_, totals[k_ + static_cast<Index>(Total::inertia)]);
  spread_ = totals[k_ + static_cast<Index>(Total::spread)];
  mean_.assign(static_cast<std::size_t>(d_), 0.0), shift_ = mean_;
  change_ = noise_ = 0;
  refills_.clear();
  std::vector<Index> empty;
  for (Index j = 0; j < k_; ++j)
    if (!(weights_[static_cast<std::size_t>(j)] > 0)) empty.push_back(j);
  if (!empty.empty()) {
    std::vector<Far> far(offered.begin(), offered.end());
    std::erase_if(far, [](const Far& one) { return one.row < 0 || !(one.square > 0); });
    std::sort(far.begin(), far.end(), [](const Far& a, const Far& b) {
      return a.square > b.square || (a.square == b.square && a.row < b.row);
    });
    auto next = far.begin();
    for (const Index j : empty) {
      while (next != far.end() && !(weights_[static_cast<std::size_t>(next->label)] > next->weight)) ++next;
      if (next == far.end()) break;
      const auto from = static_cast<Index>(next->label);
      refills_.push_back({static_cast<Index>(next->row), from, j, next->weight});
      weights_[static_cast<std::size_t>(from)] -= next->weight, weights_[static_cast<std::size_t>(j)] = next->weight;
      ++next;
    }
  }
  const double left = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  square_ = left > 0 ? spread_ / left : 0;  // Σ w ‖x - s‖² / Σ w
}

void CentreMoves::note(Index, Index rows, const double* sums, const double* centres) {
  for (Index j = 0; j < rows; ++j)
    for (Index l = 0; l < d_; ++l) {
      mean_[static_cast<std::size_t>(l)] += sums[j * d_ + l];
      shift_[static_cast<std::size_t>(l)] += centres[j * d_ + l];
    }
}

void CentreMoves::refill(const Refill& refill, const double* point, Index first, Index rows, double* sums) const {
  const Index from = refill.from - first, to = refill.to - first;
  for (Index l = 0; l < d_; ++l) {
    const double part = refill.weight * point[l];
    if (from >= 0 && from < rows) sums[from * d_ + l] -= part;
    if (to >= 0 && to < rows) sums[to * d_ + l] = part;
  }
}

void CentreMoves::move(Index first, Index rows, const double* sums, const double* centres, double* to) {
  for (Index j = 0; j < rows; ++j) {
    const double weight = weights_[static_cast<std::size_t>(first + j)];
    const double *sum = sums + j * d_, *centre = centres + j * d_;
    double* moved = to + j * d_;
    double length = weight;
    if (options_.unit) length = std::sqrt(std::inner_product(sum, sum + d_, sum, 0.0));
    if (!(weight > 0) || !(length > 0)) {  // it stays where it is
      if (moved != centre) std::copy_n(centre, d_, moved);
      continue;
    }
    double of_centre = 0;
    for (Index l = 0; l < d_; ++l) {
      const double mean = sum[l] / length, step = mean - centre[l];
      change_ += step * step;
      of_centre += mean * mean;
      moved[l] = mean;
    }
    noise_ += of_centre + square_ * (weight / length) * (weight / length);
  }
}

void CentreMoves::finish(Progress& progress) const {
  if (progress.least_move < 0) progress.least_move = least_move();
  const double noise = noise_ * (rounding * rounding * static_cast<double>(panels_));
  progress.converged = refills_.empty() && change_ <= std::max(progress.least_move, noise);
}

/// tol times the mean variance of the columns: of Σ w ‖x - s‖² about a shift s, the mean of the centres.
double CentreMoves::least_move() const {
  double beside = 0;
  for (std::size_t l = 0; l < mean_.size(); ++l) {
    const double off = mean_[l] / all_ - (shifts_ ? shift_[l] / static_cast<double>(k_) : 0);
    beside += off * off;
  }
  return options_.tol * std::max(0.0, spread_ / all_ - beside) / static_cast<double>(d_);
}

void check_pass(const std::string& who, double weight, double inertia) {
  if (!(weight > 0)) throw NumericalError(who + ": all weights are zero; a positive one is needed.");
  if (!std::isfinite(inertia))
    throw NumericalError(who + ": squares of distances are beyond float64; divide the points by their largest value.");
}

void take_totals(Progress& progress, const double* totals, Index k) {
  progress.weights.assign(totals, totals + k);
  progress.inertia = totals[k + static_cast<Index>(Total::inertia)];
}

void list_progress(StateParts& parts, Progress& progress) {
  parts.values("weights", progress.weights);
  parts.value("iteration", progress.iteration);
  parts.value("inertia", progress.inertia);
  parts.value("decided", progress.decided);
  parts.value("least_move", progress.least_move);
  parts.value("converged", progress.converged);
}

Index planned_iterations(const LloydOptions& options) { return std::min(options.iterations, usual_iterations); }

Progress lloyd(Graph& graph, const Source& points, const Array& centres, const LloydOptions& options, Stages& stages,
               const std::string& name) {
  Progress progress;
  Array moving = centres;
  const auto kept = stages.keep(name, [&](StateParts& parts) {
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
