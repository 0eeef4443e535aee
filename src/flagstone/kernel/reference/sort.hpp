#pragma once
// Elements in NumPy's order, one compared with the other by their values.
#include <cmath>
#include <complex>
#include <type_traits>
#include <vector>

#include "flagstone/base/dtype.hpp"

namespace flagstone::kernel::reference {

template <class T>
bool before(T a, T b, bool descending) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return descending ? b < a : a < b;
}
template <class T>
bool before(std::complex<T> a, std::complex<T> b, bool descending) {
  const auto kind = [](std::complex<T> z) { return 2 * std::isnan(z.real()) + std::isnan(z.imag()); };
  if (kind(a) != kind(b)) return kind(a) < kind(b);
  if (!std::isnan(a.real()) && a.real() != b.real()) return before(a.real(), b.real(), descending);
  return !std::isnan(a.imag()) && a.imag() != b.imag() && before(a.imag(), b.imag(), descending);
}

/// Places of elements, sorted stably by insertion.
template <class T>
std::vector<Index> argsort(const std::vector<T>& x, bool descending) {
  std::vector<Index> places;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto at = places.end();
    while (at != places.begin() && before(x[i], x[static_cast<std::size_t>(*(at - 1))], descending)) --at;
    places.insert(at, static_cast<Index>(i));
  }
  return places;
}

}  // namespace flagstone::kernel::reference
