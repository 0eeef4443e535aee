#pragma once
// The folding loops of verbs.hpp, compiled once per instruction set (see vector_loops.hpp).
// A run is folded in `lanes` interleaved parts, whose results are joined pairwise: the order of additions depends on
// the number of values alone, and every part vectorises. Sums of float64 carry what rounding takes from them, in the
// lanes and where lanes, runs and tiles meet; narrower floats are added in float64.
#include <type_traits>

#include "flagstone/kernel/elementwise/norm_level.hpp"
#include "flagstone/kernel/elementwise/vector_loops.hpp"

namespace flagstone::kernel {
namespace {

inline constexpr i64 lanes = 16;

/// What a value is folded as.
template <class T>
struct Widened {
  using type = i64;
};
template <>
struct Widened<u8> {
  using type = u64;
};
template <>
struct Widened<u16> {
  using type = u64;
};
template <>
struct Widened<u32> {
  using type = u64;
};
template <>
struct Widened<u64> {
  using type = u64;
};
template <>
struct Widened<float> {
  using type = double;
};
template <>
struct Widened<double> {
  using type = double;
};
template <class T>
using Wide = typename Widened<T>::type;

template <class T>
Wide<T> widen(T x) {
  return static_cast<Wide<T>>(x);
}

/// high + low := high + low + x, without the rounding error of the first addition (Knuth's two-sum).
inline void add_to(double& high, double& low, double x) {
  const double sum = high + x, part = sum - high;
  low += (high - (sum - part)) + (x - part);
  high = sum;
}

/// A sum of float64 and what rounding took from it.
struct CompensatedSum {
  double high, low;
};

/// The sum of a run, as precise as if added in twice the working precision: `lanes` compensated parts, joined pairwise
/// with compensation (Sum2: Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26 (2005), algorithm 4.4). 7 flops a value.
/// Registers are written out, because the compiler keeps arrays of sums in memory: 2 x the time.
inline CompensatedSum sum_of_run(const double* x, i64 n) {
  typedef double Register __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES)));
  typedef double Unaligned __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES), aligned(8), may_alias));
  constexpr int width = FLAGSTONE_VECTOR_BYTES / 8, registers = lanes / width;
  Register sums[registers] = {}, lost[registers] = {};
  i64 i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma GCC unroll 8
    for (int r = 0; r < registers; ++r) {
      const Register value = *reinterpret_cast<const Unaligned*>(x + i + r * width);
      const Register sum = sums[r] + value, part = sum - sums[r];
      lost[r] += (sums[r] - (sum - part)) + (value - part);
      sums[r] = sum;
    }
  }
  double high[lanes], low[lanes];
  __builtin_memcpy(high, sums, sizeof high);
  __builtin_memcpy(low, lost, sizeof low);
  for (i64 l = 0; i + l < n; ++l) add_to(high[l], low[l], x[i + l]);
  for (i64 half = lanes / 2; half > 0; half /= 2)
    for (i64 l = 0; l < half; ++l) {
      low[l] += low[l + half];
      add_to(high[l], low[l], high[l + half]);
    }
  return {high[0], low[0]};
}

template <class W>
W joined(Fold fold, W a, W b) {
  switch (fold) {
    case Fold::sum:
      return static_cast<W>(a + b);
    case Fold::prod:
      return static_cast<W>(a * b);
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

/// A run of values as one, by `fold`; n > 0.
template <Fold fold, class T>
Wide<T> run_of(const T* x, i64 n) {
  using W = Wide<T>;
  using Add = typename Wrapping<W>::type;  // unsigned: integers wrap
  if (n < lanes) {
    W result = widen(x[0]);
    for (i64 i = 1; i < n; ++i) {
      if constexpr (!is_float<T> && (fold == Fold::sum || fold == Fold::prod))
        result = static_cast<W>(joined(fold, static_cast<Add>(result), static_cast<Add>(widen(x[i]))));
      else
        result = joined(fold, result, widen(x[i]));
    }
    return result;
  }
  W parts[lanes];
  for (i64 l = 0; l < lanes; ++l) parts[l] = widen(x[l]);
  const auto join = [](W a, W b) {
    if constexpr (!is_float<T> && (fold == Fold::sum || fold == Fold::prod))
      return static_cast<W>(joined(fold, static_cast<Add>(a), static_cast<Add>(b)));
    else
      return joined(fold, a, b);
  };
  i64 i = lanes;
  for (; i + lanes <= n; i += lanes)
    for (i64 l = 0; l < lanes; ++l) parts[l] = join(parts[l], widen(x[i + l]));
  for (i64 l = 0; i + l < n; ++l) parts[l] = join(parts[l], widen(x[i + l]));
  for (i64 half = lanes / 2; half > 0; half /= 2)
    for (i64 l = 0; l < half; ++l) parts[l] = join(parts[l], parts[l + half]);
  return parts[0];
}

/// The level of a number of this size (norm_level.hpp), as a double; what is float32 is far from every bound. NaN is of
/// level 0, where it stays NaN.
template <class T>
double level_of(double size) {
  if constexpr (std::is_same_v<T, float>) return 0;
  return size > large_number ? 1.0 : size < small_number ? -1.0 : 0.0;
}

inline double scale_at(double level) { return level > 0 ? scale_down : level < 0 ? scale_up : 1.0; }

/// By which a sum of squares is multiplied, twice, when its level rises.
inline double rise(double from, double to) { return to - from < 1 ? 1.0 : to - from < 2 ? scale_down : 0.0; }

/// A run of at most some thousand values: its largest first, then the squares, which the nearest cache still holds.
template <class T>
void norm_of_run(const T* x, i64 n, double* level, double* high, double* low) {
  double sizes[lanes] = {}, squares[lanes] = {};
  i64 i = 0;
  if constexpr (!std::is_same_v<T, float>) {
    const auto larger = [](double most, double size) { return size > most ? size : most; };
    for (; i + lanes <= n; i += lanes)
      for (i64 l = 0; l < lanes; ++l) sizes[l] = larger(sizes[l], __builtin_fabs(x[i + l]));
    for (i64 l = 0; i + l < n; ++l) sizes[l] = larger(sizes[l], __builtin_fabs(x[i + l]));
    for (i64 half = lanes / 2; half > 0; half /= 2)
      for (i64 l = 0; l < half; ++l) sizes[l] = larger(sizes[l], sizes[l + half]);
  }
  const double here = level_of<T>(sizes[0]), scale = scale_at(here);
  for (i = 0; i + lanes <= n; i += lanes)
    for (i64 l = 0; l < lanes; ++l) {
      const double value = static_cast<double>(x[i + l]) * scale;
      squares[l] += value * value;
    }
  for (i64 l = 0; i + l < n; ++l) {
    const double value = static_cast<double>(x[i + l]) * scale;
    squares[l] += value * value;
  }
  for (i64 half = lanes / 2; half > 0; half /= 2)
    for (i64 l = 0; l < half; ++l) squares[l] += squares[l + half];
  const double to = here > *level ? here : *level, down = rise(*level, to), part = rise(here, to);
  *high = *high * down * down;
  *low = *low * down * down;
  add_to(*high, *low, squares[0] * part * part);
  *level = to;
}

/// Is `a` at `i` the better answer than `b` at `j`? NaN before all, then the value, then the first.
template <Fold fold, class W>
bool better(W a, i64 i, W b, i64 j) {
  const bool nan_a = a != a, nan_b = b != b;
  if (nan_a || nan_b) return nan_a && (!nan_b || i < j);
  if (a == b) return i < j;
  return fold == Fold::argmin ? a < b : a > b;
}

template <Fold fold, class T>
void fold_run(const FoldCall& call) {
  using W = Wide<T>;
  const T* x = static_cast<const T*>(call.x);
  W* words = static_cast<W*>(call.words);
  if constexpr (fold == Fold::sum && std::is_same_v<T, double>) {
    const CompensatedSum sum = sum_of_run(x, call.n);
    add_to(words[0], words[call.stride], sum.high);
    words[call.stride] += sum.low;
  } else if constexpr (fold == Fold::sum && is_float<T>) {  // float64 holds what sums of a block of float32 lose
    add_to(words[0], words[call.stride], run_of<fold>(x, call.n));
  } else if constexpr (fold == Fold::argmin || fold == Fold::argmax) {
    constexpr Fold plain = fold == Fold::argmin ? Fold::min : Fold::max;
    const W best = run_of<plain>(x, call.n);
    i64 at = 0;
    while (!(widen(x[at]) == best || (best != best && x[at] != x[at]))) ++at;
    i64* index = static_cast<i64*>(call.words) + call.stride;
    const i64 here = call.index + at * call.step;
    if (better<fold>(best, here, words[0], *index)) words[0] = best, *index = here;
  } else if constexpr (fold == Fold::var) {
    // Two looks at a run that lies in the cache, then Chan's formula for joining it to what was.
    double* state = static_cast<double*>(call.words);
    const auto n = static_cast<double>(call.n);
    double parts[lanes] = {}, squares[lanes] = {};
    i64 i = 0;
    for (; i + lanes <= call.n; i += lanes)
      for (i64 l = 0; l < lanes; ++l) parts[l] += static_cast<double>(x[i + l]);
    for (i64 l = 0; i + l < call.n; ++l) parts[l] += static_cast<double>(x[i + l]);
    const double mean = run_of<Fold::sum>(static_cast<const double*>(parts), lanes) / n;
    for (i = 0; i + lanes <= call.n; i += lanes)
      for (i64 l = 0; l < lanes; ++l) {
        const double d = static_cast<double>(x[i + l]) - mean;
        squares[l] += d * d;
      }
    for (i64 l = 0; i + l < call.n; ++l) {
      const double d = static_cast<double>(x[i + l]) - mean;
      squares[l] += d * d;
    }
    const double total = state[0] + n, d = mean - state[call.stride];
    state[2 * call.stride] +=
        run_of<Fold::sum>(static_cast<const double*>(squares), lanes) + d * d * (state[0] * n / total);
    state[call.stride] += d * (n / total);
    state[0] = total;
  } else if constexpr (fold == Fold::norm) {
    if constexpr (is_float<T>) norm_of_run(x, call.n, words, words + call.stride, words + 2 * call.stride);
  } else if constexpr (!is_float<T> && (fold == Fold::sum || fold == Fold::prod)) {
    u64* word = static_cast<u64*>(call.words);
    *word = joined(fold, *word, static_cast<u64>(run_of<fold>(x, call.n)));
  } else {
    words[0] = joined(fold, words[0], run_of<fold>(x, call.n));
  }
}

template <Fold fold, class T>
void fold_each(const FoldCall& call) {
  using W = Wide<T>;
  const T* __restrict x = static_cast<const T*>(call.x);
  W* __restrict words = static_cast<W*>(call.words);
  if constexpr (fold == Fold::sum && is_float<T>) {
    W* __restrict low = words + call.stride;
    for (i64 i = 0; i < call.n; ++i) {
      const double sum = words[i] + static_cast<double>(x[i]), part = sum - words[i];
      low[i] += (words[i] - (sum - part)) + (static_cast<double>(x[i]) - part);
      words[i] = sum;
    }
  } else if constexpr (fold == Fold::argmin || fold == Fold::argmax) {
    i64* __restrict index = static_cast<i64*>(call.words) + call.stride;
    for (i64 i = 0; i < call.n; ++i) {
      const i64 here = call.index + i * call.step;
      if (better<fold>(widen(x[i]), here, words[i], index[i])) words[i] = widen(x[i]), index[i] = here;
    }
  } else if constexpr (fold == Fold::var) {  // Welford
    double* __restrict n = static_cast<double*>(call.words);
    double* __restrict mean = n + call.stride;
    double* __restrict squares = mean + call.stride;
    for (i64 i = 0; i < call.n; ++i) {
      const double value = static_cast<double>(x[i]), d = value - mean[i];
      n[i] += 1;
      mean[i] += d / n[i];
      squares[i] += d * (value - mean[i]);
    }
  } else if constexpr (fold == Fold::norm) {
    if constexpr (is_float<T>) {
      double* __restrict level = words;
      double* __restrict high = level + call.stride;
      double* __restrict low = high + call.stride;
      for (i64 i = 0; i < call.n; ++i) {
        const double value = static_cast<double>(x[i]), here = level_of<T>(__builtin_fabs(value));
        const double to = here > level[i] ? here : level[i], down = rise(level[i], to), scaled = value * scale_at(to);
        const double before = high[i] * down * down, square = scaled * scaled;
        const double sum = before + square, part = sum - before;
        low[i] = low[i] * down * down + ((before - (sum - part)) + (square - part));
        high[i] = sum;
        level[i] = to;
      }
    }
  } else if constexpr (!is_float<T> && (fold == Fold::sum || fold == Fold::prod)) {
    u64* __restrict word = static_cast<u64*>(call.words);
    for (i64 i = 0; i < call.n; ++i) word[i] = joined(fold, word[i], static_cast<u64>(widen(x[i])));
  } else {
    for (i64 i = 0; i < call.n; ++i) words[i] = joined(fold, words[i], widen(x[i]));
  }
}

template <bool each, Fold fold>
FoldLoop fold_for(int dtype) {
  return visit(dtype, [](auto sample) -> FoldLoop {
    using T = decltype(sample);
    if constexpr (is_half<T> || is_complex_type<T> || (fold == Fold::norm && !is_float<T>))
      return nullptr;
    else if constexpr (is_bool<T>)
      return each ? &fold_each<fold, i8> : &fold_run<fold, i8>;
    else
      return each ? &fold_each<fold, T> : &fold_run<fold, T>;
  });
}

template <bool each>
FoldLoop find_fold(Fold fold, int dtype) {
  switch (fold) {
    case Fold::sum:
      return fold_for<each, Fold::sum>(dtype);
    case Fold::prod:
      return fold_for<each, Fold::prod>(dtype);
    case Fold::min:
      return fold_for<each, Fold::min>(dtype);
    case Fold::max:
      return fold_for<each, Fold::max>(dtype);
    case Fold::argmin:
      return fold_for<each, Fold::argmin>(dtype);
    case Fold::argmax:
      return fold_for<each, Fold::argmax>(dtype);
    case Fold::var:
      return fold_for<each, Fold::var>(dtype);
    case Fold::any:
      return fold_for<each, Fold::any>(dtype);
    case Fold::all:
      return fold_for<each, Fold::all>(dtype);
    case Fold::norm:
      return fold_for<each, Fold::norm>(dtype);
  }
  return nullptr;
}

constexpr LoopTable make_loops() { return {&find_loop, &find_cast, &find_fold<true>, &find_fold<false>}; }

}  // namespace
}  // namespace flagstone::kernel
