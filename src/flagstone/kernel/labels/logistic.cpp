#include "flagstone/kernel/labels/logistic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "flagstone/kernel/labels/shuffle.hpp"

namespace flagstone::kernel {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity(), ridge = 1e-12;
constexpr Index most_sweeps = 1000, most_halvings = 20;

/// By how much a coordinate breaks the conditions of a minimum; `idle`: it stays at zero for long.
double violation(double w, double gradient, double most_before, bool& idle) {
  const double up = gradient + 1, down = gradient - 1;
  idle = false;
  if (w > 0) return std::abs(up);
  if (w < 0) return std::abs(down);
  if (up < 0) return -up;
  if (down > 0) return down;
  idle = up > most_before && down < -most_before;
  return 0;
}

class Solver {
 public:
  Solver(const SparseColumns& x, const std::uint8_t* positive, const LogisticOptions& options, double* w,
         std::span<double> numbers, std::int32_t* index)
      : x_(x), positive_(positive), options_(options), w_(w), index_(index), shuffle_(options.seed) {
    double* at = numbers.data();
    const auto take = [&](Index n) { return std::exchange(at, at + n); };
    odds_ = take(x.rows), next_ = take(x.rows), pull_ = take(x.rows), curve_ = take(x.rows), move_ = take(x.rows);
    step_ = take(x.rows);
    ahead_ = take(x.columns), gradient_ = take(x.columns), bend_ = take(x.columns), negative_ = take(x.columns);
  }

  void run() {
    std::fill_n(w_, x_.columns, 0.0), std::fill_n(odds_, x_.rows, 1.0);
    std::iota(index_, index_ + x_.columns, 0);
    for (Index i = 0; i < x_.rows; ++i) weigh(i);
    for (Index j = 0; j < x_.columns; ++j) {
      negative_[j] = 0;
      each(j, [&](Index i, double v) { negative_[j] += positive_[i] ? 0 : cost(i) * v; });
    }
    double most_before = infinite, first = 0, inner = 1;
    for (Index step = 0; step < options_.steps; ++step) {
      double most = 0;
      const double sum = gradients(most_before, most);
      if (step == 0) first = sum;
      if (sum <= options_.eps * first) return;
      const Index sweeps = descend(inner * first);
      if (!search()) return;
      if (sweeps == 1) inner *= 0.25;
      most_before = most / static_cast<double>(x_.rows);
    }
  }

 private:
  double cost(Index i) const { return options_.cost[positive_[i]]; }
  template <class Use>
  void each(Index j, Use&& use) const {
    for (Index p = x_.pointers[j]; p < x_.pointers[j + 1]; ++p) use(x_.row[p], static_cast<double>(x_.values[p]));
  }
  /// Slope and curvature of a row's loss; odds = exp(w·x).
  void weigh(Index i) {
    const double share = 1 / (1 + odds_[i]);
    pull_[i] = cost(i) * share, curve_[i] = pull_[i] * (1 - share);
  }

  double gradients(double most_before, double& most) {
    double sum = 0;
    active_ = x_.columns;
    for (Index s = 0; s < active_; ++s) {
      const std::int32_t j = index_[s];
      double bend = ridge, slope = negative_[j];
      each(j, [&](Index i, double v) { bend += v * v * curve_[i], slope -= v * pull_[i]; });
      bend_[j] = bend, gradient_[j] = slope;
      bool idle = false;
      const double miss = violation(w_[j], slope, most_before, idle);
      if (idle) {
        std::swap(index_[s--], index_[--active_]);
        continue;
      }
      most = std::max(most, miss), sum += miss;
    }
    return sum;
  }

  /// Sweeps over the quadratic until what is missed is at most `goal`; how many.
  Index descend(double goal) {
    std::copy_n(w_, x_.columns, ahead_), std::fill_n(move_, x_.rows, 0.0);
    double most_before = infinite;
    Index active = active_, sweep = 0;
    while (sweep++ < most_sweeps) {
      double most = 0, sum = 0;
      shuffle_(index_, active);
      for (Index s = 0; s < active; ++s) {
        const std::int32_t j = index_[s];
        double slope = gradient_[j] + (ahead_[j] - w_[j]) * ridge;
        each(j, [&](Index i, double v) { slope += v * curve_[i] * move_[i]; });
        bool idle = false;
        const double miss = violation(ahead_[j], slope, most_before, idle);
        if (idle) {
          std::swap(index_[s--], index_[--active]);
          continue;
        }
        most = std::max(most, miss), sum += miss;
        advance(j, slope);
      }
      if (sum <= goal) {
        if (active == active_) return sweep;
        active = active_, most_before = infinite;  // all coordinates once more
        continue;
      }
      most_before = most / static_cast<double>(x_.rows);
    }
    return sweep;
  }

  void advance(std::int32_t j, double slope) {
    const double up = slope + 1, down = slope - 1, bend = bend_[j];
    double z = -ahead_[j];
    if (up < bend * ahead_[j])
      z = -up / bend;
    else if (down > bend * ahead_[j])
      z = -down / bend;
    if (std::abs(z) < 1e-12) return;
    z = std::clamp(z, -10.0, 10.0);
    ahead_[j] += z;
    each(j, [&](Index i, double v) { move_[i] += v * z; });
  }

  /// Halves the step until the objective falls enough; false where it never does.
  bool search() {
    const auto length = [&](const double* v) {
      double sum = 0;
      for (Index j = 0; j < x_.columns; ++j) sum += std::abs(v[j]);
      return sum;
    };
    const double before = length(w_);
    double norm = length(ahead_), delta = norm - before, negative = 0;
    for (Index s = 0; s < active_; ++s) delta += gradient_[index_[s]] * (ahead_[index_[s]] - w_[index_[s]]);
    for (Index i = 0; i < x_.rows; ++i) negative += positive_[i] ? 0 : cost(i) * move_[i];
    for (Index half = 0; half < most_halvings; ++half) {
      double rise = norm - before + negative - 0.01 * delta;
      for (Index i = 0; i < x_.rows; ++i) {
        step_[i] = std::exp(move_[i]), next_[i] = odds_[i] * step_[i];
        rise += cost(i) * std::log((1 + next_[i]) / (step_[i] + next_[i]));
      }
      if (rise <= 0) {
        std::copy_n(ahead_, x_.columns, w_), std::swap(odds_, next_);
        for (Index i = 0; i < x_.rows; ++i) weigh(i);
        return true;
      }
      for (Index j = 0; j < x_.columns; ++j) ahead_[j] = 0.5 * (w_[j] + ahead_[j]);
      for (Index i = 0; i < x_.rows; ++i) move_[i] *= 0.5;
      norm = length(ahead_), delta *= 0.5, negative *= 0.5;
    }
    return false;
  }

  SparseColumns x_;
  const std::uint8_t* positive_;
  const LogisticOptions& options_;
  double* w_;
  std::int32_t* index_;
  Shuffle shuffle_;
  Index active_ = 0;
  double *odds_, *next_, *pull_, *curve_, *move_, *step_, *ahead_, *gradient_, *bend_, *negative_;
};

}  // namespace

void train_logistic(const SparseColumns& x, const std::uint8_t* positive, const LogisticOptions& options, double* w,
                    std::span<double> numbers, std::int32_t* index) {
  Solver(x, positive, options, w, numbers, index).run();
}

}  // namespace flagstone::kernel
