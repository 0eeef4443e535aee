#include "flagstone/algorithms/spectral/units.hpp"

#include <algorithm>
#include <cmath>

namespace flagstone::spectral {
namespace {

constexpr int in_range = 330;                // squares of such numbers, their sums and eps² of them are normal numbers
constexpr int most = 1000, far_away = 2000;  // of a number; of AᵀA: shows any A whose square is out of range

double* numbers(const Array& array) { return reinterpret_cast<double*>(array.store().memory()); }
Index count_of(const Array& array) { return static_cast<Index>(array.nbytes() / sizeof(double)); }

void scale(const Array& array, int exponent) {
  if (exponent == 0) return;
  double* x = numbers(array);
  const double factor = std::ldexp(1.0, exponent);
  for (Index i = 0; i < count_of(array); ++i) x[i] *= factor;
}

/// The largest magnitude; NaN where one is NaN or infinite.
double largest(const Array& array) {
  const double* x = numbers(array);
  double found = 0, wrong = 0;
  for (Index i = 0; i < count_of(array); ++i) {
    found = std::max(found, std::abs(x[i]));
    wrong += x[i] - x[i];
  }
  return wrong == 0 ? found : wrong;
}

bool tells(double found) { return found > 0; }  // NaN does not

}  // namespace

double Units::applied(Graph& graph, const Operator& op, TallBlock& block) const {
  const int half = op.squares ? exponent_ / 2 : 0;
  const bool counted = graph.planning();
  const Array& f = block.zeroed();
  if (!counted) scale(block.x(), -half);
  op.apply(graph, block.x(), f);
  graph.barrier();
  if (counted) return 0;
  scale(block.x(), half);
  scale(f, half - exponent_);
  return known_ ? 0 : largest(f);
}

void Units::apply(Graph& graph, const Operator& op, TallBlock& block) {
  double found = applied(graph, op, block);
  if (known_ || graph.planning()) return;
  if (op.squares && !tells(found)) {  // nothing, or A is too large or too small to be squared
    exponent_ = found == 0 ? -far_away : far_away;
    found = applied(graph, op, block), ++beside_;
  }
  if (!tells(found)) exponent_ = 0;
  if (!tells(found)) return;
  known_ = true;
  const int power = std::ilogb(found);
  if (exponent_ == 0 && std::abs(power) <= in_range) return;
  exponent_ = op.squares ? std::clamp(exponent_ + power / 2 * 2, -2 * most, 2 * most) : std::clamp(power, -most, most);
  if (!op.squares) return scale(block.f(), -exponent_);
  applied(graph, op, block), ++beside_;
}

void Units::list_parts(StateParts& parts) {
  parts.value("unit", exponent_);
  parts.value("unit found by", beside_);
  parts.value("unit known", known_);
}

}  // namespace flagstone::spectral
