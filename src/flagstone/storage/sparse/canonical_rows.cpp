#include "flagstone/storage/sparse/canonical_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "flagstone/base/real_types.hpp"

namespace flagstone {
namespace {

/// Calls f with a value of the C++ type of a dtype for which is_csr_value holds.
template <class F>
decltype(auto) visit_value(Dtype dtype, F&& f) {
  if (dtype == Dtype::complex64) return f(std::complex<float>{});
  if (dtype == Dtype::complex128) return f(std::complex<double>{});
  return visit_real_type(dtype, [&](auto value) -> decltype(auto) {
    if constexpr (std::is_same_v<decltype(value), Half> || std::is_same_v<decltype(value), Truth>)
      return f(std::uint8_t{});  // of Half never: no CSR value
    else
      return f(value);
  });
}

template <class F>
decltype(auto) visit_columns(ColumnsView columns, F&& f) {
  return columns.wide ? f(columns.wide) : f(columns.narrow);
}

/// Calls f with columns as store_columns left them.
template <class Bytes, class F>
decltype(auto) visit_stored(Bytes* columns, Dtype dtype, F&& f) {
  const auto as = [&](auto kind) {
    using T = std::conditional_t<std::is_const_v<Bytes>, const decltype(kind), decltype(kind)>;
    return f(reinterpret_cast<T*>(columns));
  };
  switch (dtype) {
    case Dtype::uint8:
      return as(std::uint8_t{});
    case Dtype::uint16:
      return as(std::uint16_t{});
    case Dtype::uint32:
      return as(std::uint32_t{});
    default:
      return as(Index{});
  }
}

template <class V>
constexpr bool is_pair = std::is_same_v<V, std::complex<float>> || std::is_same_v<V, std::complex<double>>;

template <class V>
V value_at(const std::byte* values, Index i) {
  return reinterpret_cast<const Loose<V>*>(values)[i];
}

template <class C>
bool increasing(const Loose<C>* columns, Index n) {
  bool wrong = false;
  for (Index i = 1; i < n; ++i) wrong |= C{columns[i]} <= C{columns[i - 1]};
  return !wrong;
}

template <class C, class T>
void convert(const Loose<C>* from, Index n, T* to) {
  for (Index i = 0; i < n; ++i) to[i] = static_cast<T>(C{from[i]});
}

/// total_of(i): the totals of value i.
template <class V, class TotalOf>
Index accumulate(const std::byte* values, Index n, const TotalOf& total_of) {
  double check = 0;  // x - x is 0 for finite x, NaN otherwise
  for (Index i = 0; i < n; ++i) {
    ColumnTotals& column = total_of(i);
    if constexpr (is_pair<V>) {
      const std::complex<double> z = value_at<V>(values, i);
      column.sum += z.real();
      column.squares += std::norm(z);
      check += (z.real() - z.real()) + (z.imag() - z.imag());
    } else {
      const auto x = static_cast<double>(value_at<V>(values, i));
      column.sum += x;
      column.squares += x * x;
      if constexpr (std::is_floating_point_v<V>) check += x - x;
    }
  }
  if (check == 0) return -1;
  for (Index i = 0; i < n; ++i) {
    const V value = value_at<V>(values, i);
    if constexpr (is_pair<V>) {
      if (!std::isfinite(value.real()) || !std::isfinite(value.imag())) return i;
    } else if (!std::isfinite(static_cast<double>(value))) {
      return i;
    }
  }
  return -1;
}

/// sum += value; false on overflow of an integer.
template <class V>
bool add_value(V& sum, V value, bool boolean) {
  if constexpr (std::is_integral_v<V>) {
    if (!boolean) return !__builtin_add_overflow(sum, value, &sum);
    sum = sum || value;
  } else {
    sum += value;
  }
  return true;
}

}  // namespace

bool is_csr_value(Dtype dtype) { return dtype != Dtype::float16; }

Index canonical_until(const Index* pointers, ColumnsView columns, Index row, Index rows) {
  return visit_columns(columns, [&](const auto* from) {
    while (row < rows && increasing(from + pointers[row], pointers[row + 1] - pointers[row])) ++row;
    return row;
  });
}

void store_columns(ColumnsView columns, Index n, Dtype dtype, std::byte* to) {
  visit_columns(columns,
                [&](const auto* from) { visit_stored(to, dtype, [&](auto* stored) { convert(from, n, stored); }); });
}

/// Without a branch, so that it is done for several values at once. The bits must agree: -0.0 and NaN have no byte.
template <class V>
bool narrow_loop(const std::byte* __restrict values, Index n, std::byte* __restrict to) {
  using Bits = std::conditional_t<sizeof(V) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(V) == 2, std::uint16_t,
                                                     std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>>>;
  Bits different = 0;
  for (Index i = 0; i < n; ++i) {
    const V value = value_at<V>(values, i);
    std::uint8_t byte;
    if constexpr (std::is_floating_point_v<V>)  // in units of 1 the mantissa ends with the integer
      byte = static_cast<std::uint8_t>(std::bit_cast<Bits>(value + (sizeof(V) == 4 ? V{0x1p23} : V{0x1p52})));
    else
      byte = static_cast<std::uint8_t>(value);
    const V back = static_cast<V>(static_cast<std::int32_t>(byte));
    different |= static_cast<Bits>(std::bit_cast<Bits>(value) ^ std::bit_cast<Bits>(back));
    to[i] = static_cast<std::byte>(byte);
  }
  return different == 0;
}

bool narrow_values(const std::byte* values, Dtype dtype, Index n, std::byte* to) {
  return visit_value(dtype, [&](auto kind) {
    if constexpr (is_pair<decltype(kind)>)
      return false;
    else
      return narrow_loop<decltype(kind)>(values, n, to);
  });
}

void widen_values(const Index* narrow, Index n, Dtype dtype, std::byte* to) {
  visit_value(dtype, [&](auto kind) {
    for (Index i = 0; i < n; ++i) {
      const auto value = static_cast<decltype(kind)>(narrow[i]);
      std::memcpy(to + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
    }
  });
}

Index add_totals(const std::byte* values, Dtype dtype, const std::byte* columns, Dtype index, Index n,
                 ColumnTotals* totals) {
  return visit_value(dtype, [&](auto value) {
    return visit_stored(columns, index, [&](const auto* from) {
      return accumulate<decltype(value)>(values, n, [=](Index i) -> ColumnTotals& { return totals[from[i]]; });
    });
  });
}

Index add_squares(const std::byte* values, Dtype dtype, Index n, double& squares) {
  ColumnTotals all{0, squares};
  const Index bad = visit_value(dtype, [&](auto value) {
    return accumulate<decltype(value)>(values, n, [&](Index) -> ColumnTotals& { return all; });
  });
  squares = all.squares;
  return bad;
}

bool make_canonical(ColumnsView columns, const std::byte* values, Dtype dtype, Index n, CanonicalRow& row) {
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return columns[a] < columns[b]; });
  row.columns.clear();
  return visit_value(dtype, [&](auto zero) {
    using V = decltype(zero);
    std::vector<V> sums;
    for (Index i : order) {
      V value = value_at<V>(values, i);
      if (dtype == Dtype::boolean) value = V(value != V{} ? 1 : 0);
      if (row.columns.empty() || row.columns.back() != columns[i]) {
        row.columns.push_back(columns[i]);
        sums.push_back(value);
      } else if (!add_value(sums.back(), value, dtype == Dtype::boolean)) {
        return false;
      }
    }
    row.values.resize(sums.size() * sizeof(V));
    std::memcpy(row.values.data(), sums.data(), row.values.size());
    return true;
  });
}

}  // namespace flagstone
