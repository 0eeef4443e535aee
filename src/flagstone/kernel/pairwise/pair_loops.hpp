#pragma once
// The loops of pairwise.hpp, compiled once per instruction set: pair_avx512.cpp, pair_avx2.cpp and pair_baseline.cpp
// include this with their own compile flags. It therefore includes no header with inline functions: the linker would
// keep one copy of those for the whole program, perhaps the one that this processor cannot run.
#include <cstdint>

namespace flagstone::kernel {

/// What becomes of a sum over coordinates.
enum class PairValue : int { rbf, matern12, matern32, matern52, linear, polynomial, cosine };

inline constexpr int pair_rows = 4;  // points of X that one pass over a panel of Y takes

/// Sums over `depth` coordinates for pair_rows points of X (at x, ldx apart) and `panels` panels of points of Y, in
/// each of which coordinate k of `width` points lies together: of squared differences, or of products.
struct PairSums {
  const double* x;
  std::int64_t ldx;
  const double* y;
  std::int64_t panels, depth;
  bool differences;
  double* sums;  // pair_rows rows, `ld` apart
  std::int64_t ld;
};

/// n values (a multiple of the width) in place of sums. norms_y: sums are products, and norms of both points are here.
struct PairValues {
  PairValue value;
  double gamma, coef0, degree;
  double tiny;  // what is nearer to zero becomes zero
  double norm_x;
  const double* norms_y;  // null: sums are what the value is of
  double* sums;
  std::int64_t n;
};

struct PairTable {
  int width;  // points of a panel
  void (*sums)(const PairSums&);
  void (*norms)(const double* y, std::int64_t panels, std::int64_t depth, double* norms);
  void (*values)(const PairValues&);
};
extern const PairTable pairs_avx512, pairs_avx2, pairs_baseline;

}  // namespace flagstone::kernel

#ifdef FLAGSTONE_VECTOR_BYTES  // set by the three including sources
namespace flagstone::kernel {
namespace {

typedef double V __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES)));
constexpr int lanes = FLAGSTONE_VECTOR_BYTES / sizeof(double), abreast = 2, width = abreast * lanes;

#ifdef FLAGSTONE_LIBMVEC
}  // namespace
extern "C" {
#if FLAGSTONE_VECTOR_BYTES == 64
V _ZGVeN8v_exp(V);
V _ZGVeN8vv_pow(V, V);
#define FLAGSTONE_EXP _ZGVeN8v_exp
#define FLAGSTONE_POW _ZGVeN8vv_pow
#elif FLAGSTONE_VECTOR_BYTES == 32
V _ZGVdN4v_exp(V);
V _ZGVdN4vv_pow(V, V);
#define FLAGSTONE_EXP _ZGVdN4v_exp
#define FLAGSTONE_POW _ZGVdN4vv_pow
#else
V _ZGVbN2v_exp(V);
V _ZGVbN2vv_pow(V, V);
#define FLAGSTONE_EXP _ZGVbN2v_exp
#define FLAGSTONE_POW _ZGVbN2vv_pow
#endif
}
namespace {
V exp_(V x) { return FLAGSTONE_EXP(x); }
V pow_(V x, V y) { return FLAGSTONE_POW(x, y); }
#else
V exp_(V x) {
  for (int l = 0; l < lanes; ++l) x[l] = __builtin_exp(x[l]);
  return x;
}
V pow_(V x, V y) {
  for (int l = 0; l < lanes; ++l) x[l] = __builtin_pow(x[l], y[l]);
  return x;
}
#endif

V load(const double* at) {
  V v;
  __builtin_memcpy(&v, at, sizeof v);
  return v;
}
void store(V v, double* at) { __builtin_memcpy(at, &v, sizeof v); }
V all(double x) { return x - V{}; }
V sqrt_(V x) {
  for (int l = 0; l < lanes; ++l) x[l] = __builtin_sqrt(x[l]);
  return x;
}

template <bool differences>
void sums_of(const PairSums& job) {
  for (std::int64_t p = 0; p < job.panels; ++p) {
    const double* y = job.y + p * job.depth * width;
    V sum[pair_rows][abreast] = {};
    for (std::int64_t k = 0; k < job.depth; ++k, y += width)
      for (int j = 0; j < abreast; ++j) {
        const V b = load(y + j * lanes);
        for (int i = 0; i < pair_rows; ++i) {
          const V a = all(job.x[i * job.ldx + k]);
          if constexpr (differences) {
            const V d = a - b;
            sum[i][j] += d * d;
          } else {
            sum[i][j] += a * b;
          }
        }
      }
    for (int i = 0; i < pair_rows; ++i)
      for (int j = 0; j < abreast; ++j) store(sum[i][j], job.sums + i * job.ld + p * width + j * lanes);
  }
}

void sums(const PairSums& job) { job.differences ? sums_of<true>(job) : sums_of<false>(job); }

/// Squared lengths, in the order and with the roundings of the products: a point's distance from itself is zero.
void norms(const double* y, std::int64_t panels, std::int64_t depth, double* norms) {
  for (std::int64_t p = 0; p < panels; ++p) {
    V sum[abreast] = {};
    for (std::int64_t k = 0; k < depth; ++k, y += width)
      for (int j = 0; j < abreast; ++j) {
        const V b = load(y + j * lanes);
        sum[j] += b * b;
      }
    for (int j = 0; j < abreast; ++j) store(sum[j], norms + p * width + j * lanes);
  }
}

/// Small whole powers by multiplication, exact in sign; others by the library.
V power(V x, double degree) {
  if (!(degree >= 0 && degree <= 64) || degree != static_cast<double>(static_cast<int>(degree)))
    return pow_(x, all(degree));
  V result = all(1);
  for (int left = static_cast<int>(degree); left > 0; left >>= 1, x *= x)
    if (left & 1) result *= x;
  return result;
}

V value_of(const PairValues& job, V s, V norm_y) {
  // Beyond this every exponential below is zero; the polynomial before it must stay finite.
  constexpr double far = 1e10;
  const auto distance = [&](double factor) {
    const V capped = s > far ? all(far) : s;
    return sqrt_(factor * capped);
  };
  switch (job.value) {
    case PairValue::rbf:
      return exp_(-job.gamma * s);
    case PairValue::matern12:
      return exp_(-distance(1));
    case PairValue::matern32: {
      const V t = distance(3);
      return (1 + t) * exp_(-t);
    }
    case PairValue::matern52: {
      const V t = distance(5);
      return (1 + t + t * t / 3) * exp_(-t);
    }
    case PairValue::linear:
      return s;
    case PairValue::polynomial:
      return power(job.gamma * s + job.coef0, job.degree);
    case PairValue::cosine: {
      const V length = sqrt_(job.norm_x * norm_y);  // of a point and itself: its squared length, exactly
      return length == 0 ? V{} : s / length;
    }
  }
  return s;
}

void values(const PairValues& job) {
  for (std::int64_t i = 0; i < job.n; i += lanes) {
    V s = load(job.sums + i);
    const V norm = job.norms_y ? load(job.norms_y + i) : V{};
    if (job.norms_y && job.value < PairValue::linear) {
      s = (job.norm_x + norm) - 2 * s;
      s = s < 0 ? V{} : s;
    }
    V v = value_of(job, s, norm);
    const V size = v < 0 ? -v : v;
    v = size < job.tiny ? V{} : v;
    store(v, job.sums + i);
  }
}

constexpr PairTable make_table() { return {width, sums, norms, values}; }

}  // namespace
}  // namespace flagstone::kernel
#endif
