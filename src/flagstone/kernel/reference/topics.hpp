#pragma once
// Naive twin of kernel/topics: float64, one word and topic at a time.
#include <cmath>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::reference {

/// A document's words and counts; topics of V words, k topics: topics[w][t].
struct DocumentTwin {
  std::vector<Index> words;
  std::vector<double> counts;
  std::vector<std::vector<double>> topics;
  std::vector<double> weights;

  double product(Index word) const {
    double sum = 0;
    for (std::size_t t = 0; t < weights.size(); ++t) sum += weights[t] * topics[static_cast<std::size_t>(word)][t];
    return sum;
  }
  std::vector<double> gradient() const {
    std::vector<double> g(weights.size(), 0.0);
    for (std::size_t i = 0; i < words.size(); ++i)
      for (std::size_t t = 0; product(words[i]) > 0 && t < g.size(); ++t)
        g[t] += counts[i] / product(words[i]) * topics[static_cast<std::size_t>(words[i])][t];
    return g;
  }
  void step(double prior) {
    const std::vector<double> g = gradient();
    double sum = 0;
    for (std::size_t t = 0; t < g.size(); ++t) sum += weights[t] = weights[t] * g[t] + prior;
    for (double& weight : weights) weight /= sum;
  }
  double likelihood() const {
    double sum = 0;
    for (std::size_t i = 0; i < words.size(); ++i) sum += counts[i] * std::log(product(words[i]));
    return sum;
  }
};

}  // namespace flagstone::reference
