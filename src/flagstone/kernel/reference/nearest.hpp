#pragma once
// Nearest centres and points by all distances in float64.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "flagstone/base/dtype.hpp"

namespace flagstone::kernel::reference {

/// Σ (x - y)² of row i of x and row j of y, d numbers each.
inline double square_distance(const std::vector<double>& x, Index i, const std::vector<double>& y, Index j, Index d) {
  double sum = 0;
  for (Index l = 0; l < d; ++l) {
    const double difference = x[i * d + l] - y[j * d + l];
    sum += difference * difference;
  }
  return sum;
}

/// Rows of y in the order of their distance from row i of x, ties by number.
inline std::vector<Index> by_distance(const std::vector<double>& x, Index i, const std::vector<double>& y, Index d) {
  std::vector<Index> order(y.size() / static_cast<std::size_t>(d));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return square_distance(x, i, y, a, d) < square_distance(x, i, y, b, d); });
  return order;
}

}  // namespace flagstone::kernel::reference
