#include "flagstone/algorithms/spectral/wanted.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "flagstone/base/error.hpp"

namespace flagstone::spectral {

Which which_from_name(const std::string& name) {
  if (name == "LM") return Which::largest_magnitude;
  if (name == "LA") return Which::largest;
  if (name == "SA") return Which::smallest;
  if (name == "BE") return Which::both_ends;
  throw ShapeError("eigsh: which is '" + name + "'; choose 'LM', 'LA', 'SA' or 'BE'.");
}

std::vector<Index> wanted(const std::vector<double>& values, Which which, Index k) {
  std::vector<Index> order(values.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto key = [&](Index i) {
    return which == Which::largest_magnitude ? std::abs(values[i]) : which == Which::smallest ? -values[i] : values[i];
  };
  std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return key(i) > key(j); });
  k = std::min(k, static_cast<Index>(order.size()));
  if (which != Which::both_ends) {
    order.resize(k);
    return order;
  }
  std::vector<Index> chosen;
  for (Index high = 0, low = static_cast<Index>(order.size()) - 1; static_cast<Index>(chosen.size()) < k;)
    chosen.push_back(chosen.size() % 2 == 0 ? order[high++] : order[low--]);
  return chosen;
}

bool displaces(double value, const std::vector<double>& chosen, Which which, double slack) {
  double least = std::numeric_limits<double>::infinity(), most = -least, magnitude = least;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    magnitude = std::min(magnitude, std::abs(chosen[i]));
    if (which != Which::both_ends || i % 2 == 0) least = std::min(least, chosen[i]);
    if (which != Which::both_ends || i % 2 == 1) most = std::max(most, chosen[i]);
  }
  switch (which) {
    case Which::largest_magnitude:
      return std::abs(value) > magnitude + slack;
    case Which::largest:
      return value > least + slack;
    case Which::smallest:
      return value < most - slack;
    case Which::both_ends:
      return value > least + slack || value < most - slack;
  }
  return false;
}

}  // namespace flagstone::spectral
