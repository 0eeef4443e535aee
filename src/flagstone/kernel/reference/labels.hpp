#pragma once
// Naive twins of kernel/labels: dense matrices, one loop each.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::reference {

/// z[c] = Σ_f w[c][f] x[f], in float32 in the order of `order`, then the bias, which is w[c].back().
inline std::vector<float> child_products(const std::vector<std::vector<float>>& w, const std::vector<float>& x,
                                         const std::vector<Index>& order) {
  std::vector<float> z;
  for (const std::vector<float>& of_child : w) {
    float sum = 0;
    for (const Index f : order)
      if (const float weight = of_child[static_cast<std::size_t>(f)]; weight != 0)
        sum += weight * x[static_cast<std::size_t>(f)];
    z.push_back(of_child.back() != 0 ? sum + of_child.back() : sum);
  }
  return z;
}

/// ½‖w‖² + C Σ max(0, 1 - y (w·x + b))², b the last of w and a part of its length.
inline double svm_objective(const std::vector<std::vector<double>>& x, const std::vector<bool>& positive, double cost,
                            const std::vector<double>& w) {
  double loss = 0, square = 0;
  for (const double one : w) square += one * one;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double z = w.back();
    for (std::size_t f = 0; f < x[i].size(); ++f) z += w[f] * x[i][f];
    const double miss = std::max(0.0, 1 - (positive[i] ? z : -z));
    loss += miss * miss;
  }
  return square / 2 + cost * loss;
}

/// The same at its least, by gradient descent with halved steps: slow and sure.
inline double least_objective(const std::vector<std::vector<double>>& x, const std::vector<bool>& positive,
                              double cost) {
  std::vector<double> w(x.empty() ? 1 : x[0].size() + 1, 0.0);
  double now = svm_objective(x, positive, cost, w), step = 1;
  for (int turn = 0; turn < 20'000 && step > 1e-14; ++turn) {
    std::vector<double> slope = w;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double y = positive[i] ? 1 : -1;
      double z = w.back();
      for (std::size_t f = 0; f < x[i].size(); ++f) z += w[f] * x[i][f];
      const double miss = std::max(0.0, 1 - y * z);
      for (std::size_t f = 0; f < x[i].size(); ++f) slope[f] -= 2 * cost * miss * y * x[i][f];
      slope.back() -= 2 * cost * miss * y;
    }
    std::vector<double> next = w;
    for (std::size_t f = 0; f < w.size(); ++f) next[f] -= step * slope[f];
    const double then = svm_objective(x, positive, cost, next);
    if (then < now)
      w = next, now = then, step *= 1.5;
    else
      step /= 2;
  }
  return now;
}

/// The k best of summed scores: larger first, then lower numbers.
inline std::vector<std::pair<std::int32_t, float>> best_sums(const std::map<std::int32_t, float>& sums, Index k) {
  std::vector<std::pair<std::int32_t, float>> all(sums.begin(), sums.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  all.resize(std::min(all.size(), static_cast<std::size_t>(k)));
  return all;
}

}  // namespace flagstone::reference
