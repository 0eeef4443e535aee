#pragma once
// Products over semirings by their definition: the oracle of kernel/sparse's tests.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "flagstone/base/semiring.hpp"
#include "flagstone/base/shape.hpp"

namespace flagstone::kernel::reference {

/// One entry of a matrix or vector; nothing where none is stored.
template <class T>
using Entry = std::optional<T>;

/// What whole numbers are when 128 bits are cut to 64.
template <class T>
T saturated(__int128 wide) {
  const __int128 low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  return static_cast<T>(std::clamp(wide, low, high));
}

/// a · x.
template <class T>
T semiring_times(Semiring semiring, T a, T x) {
  constexpr bool whole = std::is_integral_v<T>;
  const std::string_view name = name_of(semiring);
  if (name.ends_with("_first")) return a;
  if (name.ends_with("_second")) return x;
  if (name.ends_with("_pair")) return 1;
  if (name.ends_with("_and")) return a != 0 && x != 0;
  if constexpr (whole) {
    const __int128 wide = name.ends_with("_plus") ? __int128{a} + x : __int128{a} * x;
    const T infinity = name == "min_plus" ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
    if (name.ends_with("_plus") && (a == infinity || x == infinity)) return infinity;
    return name == "plus_times" ? static_cast<T>(wide) : saturated<T>(wide);
  } else {
    return name.ends_with("_plus") ? a + x : a * x;
  }
}

/// Entries that meet, added up in their order; nothing where none do.
template <class T>
Entry<T> semiring_sum(Semiring semiring, const std::vector<T>& terms) {
  Entry<T> sum;
  const std::string_view name = name_of(semiring);
  for (const T term : terms) {
    if (!sum)
      sum = term;
    else if (name.starts_with("min"))
      sum = std::isnan(static_cast<double>(*sum)) || *sum < term ? *sum : term;
    else if (name.starts_with("max"))
      sum = std::isnan(static_cast<double>(*sum)) || *sum > term ? *sum : term;
    else if (name.starts_with("or"))
      sum = *sum != 0 || term != 0;
    else if constexpr (std::is_integral_v<T>)
      sum = static_cast<T>(__int128{*sum} + term);
    else
      sum = *sum + term;
  }
  return sum;
}

}  // namespace flagstone::kernel::reference
