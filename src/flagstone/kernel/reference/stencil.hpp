#pragma once
// A step of weights by its definition: one point after another.
#include <algorithm>
#include <cstddef>
#include <vector>

namespace flagstone::kernel::reference {

/// W(u) at one point: `value(offset)` is the neighbour there.
template <class T, class Neighbour, class Value>
T weighted_sum(const std::vector<Neighbour>& neighbours, const Value& value) {
  std::vector<Neighbour> in_order = neighbours;
  std::sort(in_order.begin(), in_order.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
  std::vector<double> weights;
  for (const Neighbour& each : in_order)
    if (std::find(weights.begin(), weights.end(), each.weight.real()) == weights.end())
      weights.push_back(each.weight.real());
  T total{};
  for (std::size_t g = 0; g < weights.size(); ++g) {
    bool first = true;
    T sum{};
    for (const Neighbour& each : in_order) {
      if (each.weight.real() != weights[g]) continue;
      sum = first ? value(each.offset) : static_cast<T>(sum + value(each.offset));
      first = false;
    }
    const T product = static_cast<T>(sum * static_cast<T>(weights[g]));
    total = g == 0 ? product : static_cast<T>(total + product);
  }
  return total;
}

/// u' of a form; k and s: the coefficients.
template <class T, class Form>
T next_value(Form form, T sum, T now, T before, T k, T s) {
  const T step = static_cast<T>(k * sum), twice = static_cast<T>(now + now);
  switch (form) {
    case Form::sum:
      return sum;
    case Form::grow:
      return static_cast<T>(now + step);
    case Form::grow_source:
      return static_cast<T>(static_cast<T>(now + step) + s);
    case Form::swing:
      return static_cast<T>(sum - before);
    case Form::wave:
      return static_cast<T>(static_cast<T>(twice - before) + step);
    case Form::damped_wave: {
      const T kept = static_cast<T>(static_cast<T>(T{1} - s) * before);
      return static_cast<T>(static_cast<T>(static_cast<T>(twice - kept) + step) / static_cast<T>(T{1} + s));
    }
  }
  return sum;
}

}  // namespace flagstone::kernel::reference
