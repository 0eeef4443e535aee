// Accumulators of reductions between blocks and tiles: what nothing is, how two join, what the result is.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/base/two_sum.hpp"
#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/kernel/elementwise/norm_level.hpp"

namespace flagstone::kernel {
namespace {

/// Calls f with the type in which values of `dtype` are folded.
template <class F>
decltype(auto) visit_folded(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::float32:
    case Dtype::float64:
      return f(double{});
    case Dtype::uint8:
    case Dtype::uint16:
    case Dtype::uint32:
    case Dtype::uint64:
      return f(std::uint64_t{});
    case Dtype::boolean:
    case Dtype::int8:
    case Dtype::int16:
    case Dtype::int32:
    case Dtype::int64:
      return f(std::int64_t{});
    default:
      throw ShapeError("reduction: " + std::string(name_of(dtype)) + " is not folded as it is; convert it first.");
  }
}

template <class W>
W nothing(Fold fold) {
  constexpr bool floating = std::is_floating_point_v<W>;
  switch (fold) {
    case Fold::prod:
    case Fold::all:
      return W{1};
    case Fold::min:
    case Fold::argmin:
      return floating ? std::numeric_limits<W>::infinity() : std::numeric_limits<W>::max();
    case Fold::max:
    case Fold::argmax:
      return floating ? -std::numeric_limits<W>::infinity() : std::numeric_limits<W>::lowest();
    default:
      return W{0};
  }
}

/// b after a; integers wrap.
template <class W>
W join(Fold fold, W a, W b) {
  using Add = std::conditional_t<std::is_floating_point_v<W>, double, std::uint64_t>;
  switch (fold) {
    case Fold::sum:
      return static_cast<W>(static_cast<Add>(a) + static_cast<Add>(b));
    case Fold::prod:
      return static_cast<W>(static_cast<Add>(a) * static_cast<Add>(b));
    case Fold::min:
      return a <= b || a != a ? a : b;
    case Fold::max:
      return a >= b || a != a ? a : b;
    case Fold::any:
      return static_cast<W>(a != 0 || b != 0);
    default:
      return static_cast<W>(a != 0 && b != 0);
  }
}

template <class W>
bool better(Fold fold, W a, Index i, W b, Index j) {
  const bool nan_a = a != a, nan_b = b != b;
  if (nan_a || nan_b) return nan_a && (!nan_b || i < j);
  if (a == b) return i < j;
  return fold == Fold::argmin ? a < b : a > b;
}

void join_sums(Index results, const double* from, double* to) {
  for (Index k = 0; k < results; ++k) {
    double lost = 0;
    add_to(to[k], lost, from[k]);
    to[results + k] += lost + from[results + k];
  }
}

/// Chan, Golub, LeVeque (1983).
void join_variances(Index results, const double* from, double* to) {
  for (Index k = 0; k < results; ++k) {
    const double n = from[k], total = to[k] + n;
    if (n == 0) continue;
    const double d = from[results + k] - to[results + k];
    to[2 * results + k] += from[2 * results + k] + d * d * (to[k] * n / total);
    to[results + k] += d * (n / total);
    to[k] = total;
  }
}

/// Sums of squares, the one of the lower level brought to the higher: twice the scale, as numbers are squared.
void join_norms(Index results, const double* from, double* to) {
  for (Index k = 0; k < results; ++k) {
    const double rise = from[k] - to[k];
    const auto scale = [](double levels) { return levels < 1 ? 1.0 : levels < 2 ? scale_down : 0.0; };
    const double mine = scale(rise), other = scale(-rise);
    double& high = to[results + k];
    double& low = to[2 * results + k];
    double lost = 0;
    high = high * mine * mine;
    add_to(high, lost, from[results + k] * other * other);
    low = low * mine * mine + lost + from[2 * results + k] * other * other;
    to[k] = std::max(to[k], from[k]);
  }
}

/// high + low, where low means something.
double sum_of(const double* words, Index results, Index k) {
  return std::isfinite(words[k]) ? words[k] + words[results + k] : words[k];
}

template <class W>
double as_double(const FinishOptions& options, const W* words, Index results, Index k) {
  if constexpr (std::is_same_v<W, double>) {
    if (options.fold == Fold::var) {
      const double left = options.count - options.ddof;
      const double variance = words[2 * results + k] / (left > 0 ? left : 0.0);
      return options.finish == Finish::std ? std::sqrt(variance) : variance;
    }
    if (options.fold == Fold::norm) {
      const double root = std::sqrt(sum_of(words + results, results, k));
      return words[k] > 0 ? root * scale_up : words[k] < 0 ? root * scale_down : root;
    }
    if (options.fold == Fold::sum) {
      const double sum = sum_of(words, results, k);
      return options.finish == Finish::mean ? sum / options.count : sum;
    }
  }
  return static_cast<double>(words[k]);
}

template <class W>
void store(const FinishOptions& options, const W* words, Index results, Index k, Dtype dtype, std::byte* to) {
  const auto put = [to](auto value) { std::memcpy(to, &value, sizeof value); };
  const Index index = options.finish == Finish::index ? reinterpret_cast<const Index*>(words)[results + k] : 0;
  if (options.finish == Finish::index) return put(index);
  switch (dtype) {
    case Dtype::float32:
      return put(static_cast<float>(as_double(options, words, results, k)));
    case Dtype::float64:
      return put(as_double(options, words, results, k));
    case Dtype::boolean:
    case Dtype::int8:
    case Dtype::uint8:
      return put(static_cast<std::uint8_t>(words[k]));
    case Dtype::int16:
    case Dtype::uint16:
      return put(static_cast<std::uint16_t>(words[k]));
    case Dtype::int32:
    case Dtype::uint32:
      return put(static_cast<std::uint32_t>(words[k]));
    default:
      return put(static_cast<std::uint64_t>(words[k]));
  }
}

}  // namespace

int accumulator_words(Fold fold, Dtype dtype) {
  const bool floating = dtype == Dtype::float32 || dtype == Dtype::float64;
  if (fold == Fold::var || fold == Fold::norm) return 3;
  if (fold == Fold::argmin || fold == Fold::argmax) return 2;
  return fold == Fold::sum && floating ? 2 : 1;
}

void fold_nothing(Fold fold, Dtype dtype, Index results, std::byte* words) {
  std::memset(words, 0, static_cast<std::size_t>(results * accumulator_words(fold, dtype)) * 8);
  if (fold == Fold::var) return;
  if (fold == Fold::norm) {  // of the lowest level, from which every number rises
    std::fill_n(reinterpret_cast<double*>(words), results, -1.0);
    return;
  }
  visit_folded(dtype, [&](auto sample) {
    using W = decltype(sample);
    std::fill_n(reinterpret_cast<W*>(words), results, nothing<W>(fold));
  });
  if (fold == Fold::argmin || fold == Fold::argmax)
    std::fill_n(reinterpret_cast<Index*>(words) + results, results, std::numeric_limits<Index>::max());
}

void join_accumulators(Fold fold, Dtype dtype, Index results, const std::byte* from, std::byte* to) {
  const auto* doubles = reinterpret_cast<const double*>(from);
  if (fold == Fold::var) return join_variances(results, doubles, reinterpret_cast<double*>(to));
  if (fold == Fold::norm) return join_norms(results, doubles, reinterpret_cast<double*>(to));
  visit_folded(dtype, [&](auto sample) {
    using W = decltype(sample);
    const W* a = reinterpret_cast<const W*>(from);
    W* b = reinterpret_cast<W*>(to);
    if (fold == Fold::argmin || fold == Fold::argmax) {
      const Index* i = reinterpret_cast<const Index*>(a) + results;
      Index* j = reinterpret_cast<Index*>(b) + results;
      for (Index k = 0; k < results; ++k)
        if (better(fold, a[k], i[k], b[k], j[k])) b[k] = a[k], j[k] = i[k];
    } else if (fold == Fold::sum && std::is_same_v<W, double>) {
      join_sums(results, doubles, reinterpret_cast<double*>(to));
    } else {
      for (Index k = 0; k < results; ++k) b[k] = join(fold, b[k], a[k]);
    }
  });
}

void finish_accumulators(const FinishOptions& options, Index results, const std::byte* words, const Tile& to) {
  const Dtype folded = options.fold == Fold::var ? Dtype::float64 : options.dtype;
  visit_folded(folded, [&](auto sample) {
    const auto* accumulators = reinterpret_cast<const decltype(sample)*>(words);
    Shape at(to.shape.size(), 0);
    for (Index k = 0; k < results; ++k) {
      std::byte* place = to.data;
      for (std::size_t d = 0; d < at.size(); ++d) place += at[d] * to.strides[d];
      store(options, accumulators, results, k, to.dtype, place);
      advance(at, to.shape);
    }
  });
}

}  // namespace flagstone::kernel
