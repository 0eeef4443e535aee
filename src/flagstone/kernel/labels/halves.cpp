#include "flagstone/kernel/labels/halves.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/kernel/labels/shuffle.hpp"

namespace flagstone::kernel {
namespace {

double product(const SparsePoints& x, Index row, const double* centre) {
  double sum = 0;
  for (Index p = x.pointers[row]; p < x.pointers[row + 1]; ++p)
    sum += static_cast<double>(x.values[p]) * centre[x.columns[p]];
  return sum;
}

void add(const SparsePoints& x, Index row, double* centre) {
  for (Index p = x.pointers[row]; p < x.pointers[row + 1]; ++p)
    centre[x.columns[p]] += static_cast<double>(x.values[p]);
}

void normalise(double* centre, Index features) {
  const double length = std::sqrt(std::inner_product(centre, centre + features, centre, 0.0));
  for (Index f = 0; length > 0 && f < features; ++f) centre[f] /= length;
}

}  // namespace

void larger_half(const double* scores, Index n, std::uint8_t* left, std::vector<Index>& order) {
  order.resize(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  const auto half = order.begin() + (n + 1) / 2;
  std::nth_element(order.begin(), half, order.end(),
                   [&](Index a, Index b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); });
  std::fill_n(left, n, std::uint8_t{0});
  for (auto at = order.begin(); at != half; ++at) left[*at] = 1;
}

std::pair<Index, Index> first_two(Index n, std::uint64_t seed) {
  Shuffle draw(seed);
  const Index a = draw.below(n), b = draw.below(n - 1);
  return {a, b < a ? b : b + 1};
}

void split_in_halves(const SparsePoints& x, Index features, std::int32_t* labels, Index n, std::uint64_t seed,
                     double* left, double* right) {
  if (n < 2) return;
  std::vector<double> scores(static_cast<std::size_t>(n));
  std::vector<std::uint8_t> side(static_cast<std::size_t>(n));
  std::vector<Index> order;
  const auto [a, b] = first_two(n, seed);
  std::fill_n(left, features, 0.0), std::fill_n(right, features, 0.0);
  add(x, labels[a], left), add(x, labels[b], right);
  double before = -2;
  for (Index round = 0; round < most_rounds; ++round) {
    std::vector<double> cosines(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double to_left = product(x, labels[i], left), to_right = product(x, labels[i], right);
      scores[at] = to_left - to_right, cosines[at] = to_right;
    }
    larger_half(scores.data(), n, side.data(), order);
    double sum = 0;
    std::fill_n(left, features, 0.0), std::fill_n(right, features, 0.0);
    for (Index i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      sum += cosines[at] + (side[at] ? scores[at] : 0);
      add(x, labels[i], side[at] ? left : right);
    }
    const double mean = sum / static_cast<double>(n);
    if (mean - before < least_gain) break;
    before = mean;
    normalise(left, features), normalise(right, features);
  }
  std::vector<std::int32_t> given(labels, labels + n);
  Index first = 0, second = (n + 1) / 2;
  for (Index i = 0; i < n; ++i)
    labels[side[static_cast<std::size_t>(i)] ? first++ : second++] = given[static_cast<std::size_t>(i)];
}

}  // namespace flagstone::kernel
