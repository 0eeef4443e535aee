#include "flagstone/kernel/along/bins.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/base/grid.hpp"
#include "flagstone/base/real_types.hpp"
#include "flagstone/kernel/along/runs.hpp"

namespace flagstone::kernel {
namespace {

/// An element as it is compared with edges.
template <class T>
double number(T value) {
  if constexpr (std::is_same_v<T, Truth>)
    return std::uint8_t(value);
  else if constexpr (std::is_same_v<T, Half>)
    return float(value);
  else
    return static_cast<double>(value);
}

template <class T, class F>
void for_each_value(const Tile& values, F f) {
  for_each_run(values, Shape(values.shape.size(), 0), [&](const std::byte* data, Index stride, Index n, Index, Index) {
    for (Index j = 0; j < n; ++j) f(*reinterpret_cast<const T*>(data + j * stride));
  });
}

template <class E, class X>
std::int64_t before(const std::vector<E>& edges, bool right, X x) {
  if (x != x) return static_cast<std::int64_t>(edges.size());
  const auto end = right ? std::lower_bound(edges.begin(), edges.end(), x, [](E e, X v) { return e < v; })
                         : std::upper_bound(edges.begin(), edges.end(), x, [](X v, E e) { return v < e; });
  return end - edges.begin();
}

/// Integers of 64 bits with integers, whichever of the two has a sign.
template <class T>
std::int64_t before_whole(const Bins& bins, T x) {
  if constexpr (std::is_same_v<T, std::uint64_t>)
    if (x > static_cast<std::uint64_t>(INT64_MAX)) return static_cast<std::int64_t>(bins.whole.size());
  return before(bins.whole, bins.right, static_cast<std::int64_t>(x));
}

template <class T>
std::int64_t place(const Bins& bins, T x) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, Truth>)
    if (!bins.whole.empty())
      return before_whole(bins, static_cast<std::conditional_t<std::is_same_v<T, Truth>, std::uint8_t, T>>(x));
  return before(bins.edges, bins.right, number(x));
}

bool even(const std::vector<double>& edges) {
  const double step = (edges.back() - edges.front()) / static_cast<double>(edges.size() - 1);
  if (!(step > 0) || !std::isfinite(step)) return false;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i)
    if (std::abs(edges[i + 1] - edges[i] - step) > 0.01 * step) return false;
  return true;
}

/// Finds the bin of a number; -1: outside of all.
struct BinFinder {
  explicit BinFinder(const std::vector<double>& edges)
      : edges(edges),
        first(edges.front()),
        last(edges.back()),
        n(static_cast<std::int64_t>(edges.size()) - 1),
        guess(even(edges)),
        factor(static_cast<double>(n) / (last - first)) {}
  std::int64_t operator()(double x) const {
    if (!(x >= first && x <= last)) return -1;
    if (!guess) return std::min(before(edges, false, x), n) - 1;
    std::int64_t bin = std::min(static_cast<std::int64_t>((x - first) * factor), n - 1);
    while (bin > 0 && x < edges[static_cast<std::size_t>(bin)]) --bin;
    while (bin < n - 1 && x >= edges[static_cast<std::size_t>(bin) + 1]) ++bin;
    return bin;
  }
  const std::vector<double>& edges;
  double first, last;
  std::int64_t n;
  bool guess;
  double factor;
};

/// f(element, weight) in C order.
template <class T, class F>
void for_each_weighed(const Tile& values, const Tile& weights, F f) {
  if (count(values.shape) == 0) return;
  const std::size_t ndim = values.shape.size();
  Shape at(ndim, 0);
  do {
    const std::byte *value = values.data, *weight = weights.data;
    for (std::size_t d = 0; d < ndim; ++d) value += at[d] * values.strides[d], weight += at[d] * weights.strides[d];
    f(*reinterpret_cast<const T*>(value), *reinterpret_cast<const double*>(weight));
  } while (advance(at, values.shape));
}

}  // namespace

void count_bins(const Bins& bins, const Tile& values, std::int64_t* counts) {
  const BinFinder find(bins.edges);
  visit_real_type(values.dtype, [&](auto sample) {
    using T = decltype(sample);
    for_each_value<T>(values, [&](T value) {
      const std::int64_t bin = find(number(value));
      if (bin >= 0) ++counts[bin];
    });
  });
}

void weigh_bins(const Bins* bins, const Tile& values, const Tile& weights, double* sums) {
  visit_real_type(values.dtype, [&](auto sample) {
    using T = decltype(sample);
    if (bins) {
      const BinFinder find(bins->edges);
      for_each_weighed<T>(values, weights, [&](T value, double weight) {
        const std::int64_t bin = find(number(value));
        if (bin >= 0) sums[bin] += weight;
      });
    } else if constexpr (std::is_integral_v<T>) {
      for_each_weighed<T>(values, weights,
                          [&](T value, double weight) { sums[static_cast<std::size_t>(value)] += weight; });
    } else if constexpr (std::is_same_v<T, Truth>) {
      for_each_weighed<T>(values, weights, [&](T value, double weight) { sums[std::uint8_t(value)] += weight; });
    }
  });
}

void count_integers(const Tile& values, std::int64_t* counts) {
  visit_real_type(values.dtype, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_integral_v<T>)
      for_each_value<T>(values, [&](T value) { ++counts[static_cast<std::size_t>(value)]; });
    else if constexpr (std::is_same_v<T, Truth>)
      for_each_value<T>(values, [&](T value) { ++counts[std::uint8_t(value)]; });
  });
}

void bin_index(const Bins& bins, const Tile& values, const Tile& to) {
  if (count(to.shape) == 0) return;
  visit_real_type(values.dtype, [&](auto sample) {
    using T = decltype(sample);
    const auto all = static_cast<std::int64_t>(bins.edges.size() + bins.whole.size());
    const std::size_t ndim = to.shape.size();
    const Index run = ndim == 0 ? 1 : to.shape[ndim - 1];
    const Index from_step = ndim == 0 ? 0 : values.strides[ndim - 1], to_step = ndim == 0 ? 0 : to.strides[ndim - 1];
    Shape extents = to.shape, at(ndim, 0);
    if (ndim != 0) extents[ndim - 1] = 1;
    do {
      const std::byte* from = values.data;
      std::byte* into = to.data;
      for (std::size_t d = 0; d < ndim; ++d) from += at[d] * values.strides[d], into += at[d] * to.strides[d];
      for (Index j = 0; j < run; ++j) {
        const T x = *reinterpret_cast<const T*>(from + j * from_step);
        const std::int64_t found = place(bins, x);
        if (to.dtype != Dtype::boolean) {
          *reinterpret_cast<std::int64_t*>(into + j * to_step) = bins.down ? all - found : found;
          continue;
        }
        bool is = false;  // `found` edges lie at or below x: is the last of them x itself?
        if (found > 0) {
          const auto last = static_cast<std::size_t>(found - 1);
          if constexpr (std::is_integral_v<T>) {
            is = bins.whole.empty() ? bins.edges[last] == number(x)
                                    : static_cast<T>(bins.whole[last]) == x && (bins.whole[last] < 0) == (x < 0);
          } else if constexpr (std::is_same_v<T, Truth>) {
            is = bins.whole.empty() ? bins.edges[last] == number(x) : bins.whole[last] == std::uint8_t(x);
          } else {
            is = bins.edges[last] == number(x);
          }
        }
        *reinterpret_cast<bool*>(into + j * to_step) = is != bins.invert;
      }
    } while (advance(at, extents));
  });
}

}  // namespace flagstone::kernel
