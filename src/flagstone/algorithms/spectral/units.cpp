#include "flagstone/algorithms/spectral/units.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/base/error.hpp"

namespace flagstone::spectral {
namespace {

constexpr int in_range = 330;       // squares of such numbers, their sums and eps² of them are normal numbers
constexpr int lossless = 900;       // what was made is good to 2^-120 of its largest: it needs no second application
constexpr int far_away = 1000;      // of the units of A in which numbers of any other size show themselves
constexpr int most_squared = 2010;  // of AᵀA: half of it goes to X, whose numbers keep 2^-69 of their largest

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
  const int half = exponent_ / 2;
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
  const auto applied_in = [&](int exponent) {
    exponent_ = exponent, ++beside_;
    return applied(graph, op, block);
  };
  const int far = op.squares ? 2 * far_away : far_away;
  if (!tells(found)) found = applied_in(found == 0 ? -far : far);
  if (!tells(found)) {  // zeros, or what is not finite
    exponent_ = 0;
    return;
  }
  const int power = exponent_ + std::ilogb(found);
  if (op.squares && std::abs(power) > most_squared)
    throw NumericalError(block.who() + ": A's numbers are about 2^" + std::to_string(power / 2) +
                         ", and the numbers of AᵀA are not held in any units; give A times a power of two.");
  known_ = true;
  if (exponent_ == 0 && std::abs(power) <= in_range) return;
  if (exponent_ == 0 && std::abs(power) <= lossless) {
    exponent_ = power / 2 * 2;
    scale(block.f(), -exponent_);
    return;
  }
  applied_in(power / 2 * 2);
}

void Units::list_parts(StateParts& parts) {
  parts.value("unit", exponent_);
  parts.value("unit found by", beside_);
  parts.value("unit known", known_);
}

}  // namespace flagstone::spectral
