#include "flagstone/algorithms/nuclear/clebsch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace flagstone::nuclear {
namespace {

/// n! of what j up to 61/2 needs.
long double factorial(int n) {
  static const auto table = [] {
    std::array<long double, 160> made{};
    made[0] = 1;
    for (std::size_t i = 1; i < made.size(); ++i) made[i] = made[i - 1] * static_cast<long double>(i);
    return made;
  }();
  return table[static_cast<std::size_t>(n)];
}

}  // namespace

double clebsch_gordan(int j1, int m1, int j2, int m2, int J) {
  const int M = m1 + m2;
  if (std::abs(m1) > j1 || std::abs(m2) > j2 || std::abs(M) > J || J < std::abs(j1 - j2) || J > j1 + j2) return 0;
  const auto f = [](int doubled) { return factorial(doubled / 2); };
  const long double triangle = f(j1 + j2 - J) * f(j1 - j2 + J) * f(-j1 + j2 + J) / f(j1 + j2 + J + 2);
  const long double root = std::sqrt(static_cast<long double>(J + 1) * triangle) *
                           std::sqrt(f(j1 + m1) * f(j1 - m1) * f(j2 + m2)) *
                           std::sqrt(f(j2 - m2) * f(J + M) * f(J - M));
  const int first = std::max({0, (j2 - J - m1) / 2, (j1 - J + m2) / 2});
  const int last = std::min({(j1 + j2 - J) / 2, (j1 - m1) / 2, (j2 + m2) / 2});
  long double sum = 0;
  for (int k = first; k <= last; ++k)
    sum += (k % 2 ? -1.0L : 1.0L) / (factorial(k) * f(j1 + j2 - J - 2 * k) * f(j1 - m1 - 2 * k) * f(j2 + m2 - 2 * k) *
                                     f(J - j2 + m1 + 2 * k) * f(J - j1 - m2 + 2 * k));
  return static_cast<double>(root * sum);
}

ClebschTable::ClebschTable(int two_j1, int two_j2)
    : states2_(two_j2 + 1), count_(std::min(two_j1, two_j2) + 1), least_(std::abs(two_j1 - two_j2)) {
  for (int i = 0; i <= two_j1; ++i)
    for (int k = 0; k <= two_j2; ++k)
      for (int J = 0; J < count_; ++J)
        values_.push_back(clebsch_gordan(two_j1, 2 * i - two_j1, two_j2, 2 * k - two_j2, least_ + 2 * J));
}

}  // namespace flagstone::nuclear
