#include "flagstone/algorithms/forest/orthant.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace flagstone::forest {
namespace {

constexpr double least_fall = 1e-4;  // of the objective, against what its slope promises
constexpr double least_length = 1e-8;

double dot(const double* a, const double* b, std::size_t n) { return std::inner_product(a, a + n, b, 0.0); }

/// The slope of ‖w‖₁ + f in the direction of steepest descent, with sign: 0 where w rests at 0.
double pseudo(double w, double gradient) {
  if (w > 0) return gradient + 1;
  if (w < 0) return gradient - 1;
  if (gradient < -1) return gradient + 1;
  return gradient > 1 ? gradient - 1 : 0;
}

}  // namespace

// Vectors: 0 w, 1 the gradient there, 2 the pseudo-gradient, 3 the direction, then pairs of steps and changes.
Orthant::Orthant(std::span<double> numbers, std::span<double> trial, double eps, Index most)
    : numbers_(numbers), trial_(trial), eps_(eps), most_(most) {
  std::ranges::fill(numbers_, 0.0), std::ranges::fill(trial_, 0.0);
}

void Orthant::told(double f, const double* gradient) {
  if (done_) return;
  const std::size_t n = trial_.size();
  double norm = 0, promised = 0;
  for (std::size_t i = 0; i < n; ++i) {
    norm += std::abs(trial_[i]);
    promised += vector(2)[i] * (trial_[i] - vector(0)[i]);
  }
  const bool begins = told_++ == 0;
  if (begins || f + norm <= f_ + least_fall * promised)
    accept(f + norm, gradient);
  else if ((length_ *= 0.5) < least_length)
    done_ = true;
  if (told_ >= most_) done_ = true;
  if (done_)
    std::copy_n(vector(0), n, trial_.data());
  else
    place();
}

void Orthant::accept(double f, const double* gradient) {
  const std::size_t n = trial_.size();
  if (told_ > 1) {
    const Index to = (newest_ + 1) % pairs;
    for (std::size_t i = 0; i < n; ++i)
      step(to)[i] = trial_[i] - vector(0)[i], change(to)[i] = gradient[i] - vector(1)[i];
    const double curved = dot(step(to), change(to), n);
    if (curved > 1e-10 * dot(change(to), change(to), n))
      curvature_[to] = curved, newest_ = to, held_ = std::min(pairs, held_ + 1);
  }
  std::ranges::copy(trial_, vector(0));
  std::copy_n(gradient, n, vector(1));
  f_ = f;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::abs(vector(2)[i] = pseudo(trial_[i], gradient[i]));
  if (told_ == 1) first_ = sum;
  if (sum <= eps_ * first_)
    done_ = true;
  else
    aim();
}

/// The direction: -H of the pseudo-gradient (two loops over the history), without what goes uphill.
void Orthant::aim() {
  const std::size_t n = trial_.size();
  double *d = vector(3), *slope = vector(2), along[pairs];
  std::transform(slope, slope + n, d, [](double value) { return -value; });
  const auto pair = [&](Index back) { return (newest_ - back + pairs) % pairs; };
  for (Index b = 0; b < held_; ++b) {
    const Index p = pair(b);
    along[p] = dot(step(p), d, n) / curvature_[p];
    for (std::size_t i = 0; i < n; ++i) d[i] -= along[p] * change(p)[i];
  }
  if (held_ > 0) {
    const double scale = curvature_[newest_] / dot(change(newest_), change(newest_), n);
    std::for_each_n(d, n, [&](double& value) { value *= scale; });
  }
  for (Index b = held_ - 1; b >= 0; --b) {
    const Index p = pair(b);
    const double back = along[p] - dot(change(p), d, n) / curvature_[p];
    for (std::size_t i = 0; i < n; ++i) d[i] += back * step(p)[i];
  }
  for (std::size_t i = 0; i < n; ++i)
    if (d[i] * slope[i] >= 0) d[i] = 0;
  length_ = held_ > 0 ? 1 : 1 / std::sqrt(std::max(dot(slope, slope, n), 1e-300));
}

/// trial := w + length · direction, in the orthant of w (at 0: of the direction).
void Orthant::place() {
  const double *w = vector(0), *slope = vector(2), *d = vector(3);
  for (std::size_t i = 0; i < trial_.size(); ++i) {
    const double side = w[i] != 0 ? w[i] : -slope[i], to = w[i] + length_ * d[i];
    trial_[i] = to * side > 0 ? to : 0;
  }
}

}  // namespace flagstone::forest
