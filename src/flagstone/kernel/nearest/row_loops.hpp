#pragma once
// The loops over rows of points and of scores, compiled once per instruction set: row_avx512.cpp, row_avx2.cpp and
// row_baseline.cpp include this with their own compile flags. It therefore includes no header with inline functions:
// the linker would keep one copy of those for the whole program, perhaps the one that this processor cannot run.
#include <cstdint>

namespace flagstone::kernel {

inline constexpr int score_step = 16;  // rows of scores are whole stretches of so many, whatever the processor

/// How many scores of a row lie below a bound; `place`: where, if it is one.
struct Below {
  std::int64_t count, place;
};

struct RowTable {
  /// to[j] := scale x[j] - shift[j], rounded once; its squared length before it was rounded.
  double (*round)(const double* x, double scale, const double* shift, std::int64_t n, float* to);
  /// The least of half[j] - dots[j]; n whole steps.
  float (*least)(const float* half, const float* dots, std::int64_t n);
  /// Where half[j] - dots[j] <= bound; n whole steps, fewer than 2^24.
  Below (*below)(const float* half, const float* dots, float bound, std::int64_t n);
  /// How many j have half - dots[j] <= bounds[j]; n whole steps.
  std::int64_t (*below_each)(float half, const float* dots, const float* bounds, std::int64_t n);
  /// Σ (a x[j] - b y[j])².
  double (*distance)(const double* x, double a, const double* y, double b, std::int64_t n);
  /// Σ x[j] y[j].
  double (*product)(const double* x, const double* y, std::int64_t n);
  /// sum[j] += weight x[j].
  void (*add)(const double* x, double weight, std::int64_t n, double* sum);
};
extern const RowTable rows_avx512, rows_avx2, rows_baseline;
/// The widest that this processor runs.
const RowTable& row_loops();

}  // namespace flagstone::kernel

#ifdef FLAGSTONE_VECTOR_BYTES  // set by the three including sources
namespace flagstone::kernel {
namespace {

typedef double D __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES)));
typedef float F __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES)));
typedef std::int32_t I __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES)));
constexpr int doubles = FLAGSTONE_VECTOR_BYTES / sizeof(double), floats = FLAGSTONE_VECTOR_BYTES / sizeof(float);

template <class V, class T>
V load(const T* at) {
  V v;
  __builtin_memcpy(&v, at, sizeof v);
  return v;
}

/// Four sums side by side, so that additions do not wait for each other; `term(j)` of a vector, then of one element.
template <class Vector, class One>
double sum_of(std::int64_t n, Vector&& vector, One&& one) {
  D sum[4] = {};
  std::int64_t j = 0;
  for (; j + 4 * doubles <= n; j += 4 * doubles)
    for (int v = 0; v < 4; ++v) sum[v] += vector(j + v * doubles);
  for (; j + doubles <= n; j += doubles) sum[0] += vector(j);
  const D all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  double total = 0;
  for (int l = 0; l < doubles; ++l) total += all[l];
  for (; j < n; ++j) total += one(j);
  return total;
}

double round(const double* x, double scale, const double* shift, std::int64_t n, float* to) {
  for (std::int64_t j = 0; j < n; ++j) to[j] = static_cast<float>(scale * x[j] - shift[j]);
  return sum_of(
      n,
      [&](std::int64_t j) {
        const D d = scale * load<D>(x + j) - load<D>(shift + j);
        return d * d;
      },
      [&](std::int64_t j) {
        const double d = scale * x[j] - shift[j];
        return d * d;
      });
}

float least(const float* half, const float* dots, std::int64_t n) {
  F best = load<F>(half) - load<F>(dots);
  for (std::int64_t j = floats; j < n; j += floats) {
    const F score = load<F>(half + j) - load<F>(dots + j);
    best = score < best ? score : best;
  }
  float found = best[0];
  for (int l = 1; l < floats; ++l) found = best[l] < found ? best[l] : found;
  return found;
}

Below below(const float* half, const float* dots, float bound, std::int64_t n) {
  I count{}, place{}, at;
  for (int l = 0; l < floats; ++l) at[l] = l;
  const F most = bound - F{};
  for (std::int64_t j = 0; j < n; j += floats, at += floats) {
    const I found = (load<F>(half + j) - load<F>(dots + j)) <= most;  // -1 where it is so
    count -= found;
    place += found & at;
  }
  Below all{0, 0};
  for (int l = 0; l < floats; ++l) all.count += count[l], all.place += place[l];
  return all;
}

std::int64_t below_each(float half, const float* dots, const float* bounds, std::int64_t n) {
  I count{};
  const F all = half - F{};
  for (std::int64_t j = 0; j < n; j += floats) {
    const I found = (all - load<F>(dots + j)) <= load<F>(bounds + j);
    count -= found;
  }
  std::int64_t sum = 0;
  for (int l = 0; l < floats; ++l) sum += count[l];
  return sum;
}

double distance(const double* x, double a, const double* y, double b, std::int64_t n) {
  return sum_of(
      n,
      [&](std::int64_t j) {
        const D d = a * load<D>(x + j) - b * load<D>(y + j);
        return d * d;
      },
      [&](std::int64_t j) {
        const double d = a * x[j] - b * y[j];
        return d * d;
      });
}

double product(const double* x, const double* y, std::int64_t n) {
  return sum_of(
      n, [&](std::int64_t j) { return load<D>(x + j) * load<D>(y + j); }, [&](std::int64_t j) { return x[j] * y[j]; });
}

void add(const double* x, double weight, std::int64_t n, double* sum) {
  for (std::int64_t j = 0; j < n; ++j) sum[j] += weight * x[j];
}

constexpr RowTable make_table() { return {round, least, below, below_each, distance, product, add}; }

}  // namespace
}  // namespace flagstone::kernel
#endif
