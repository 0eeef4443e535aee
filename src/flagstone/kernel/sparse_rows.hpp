#pragma once
// The row loops of sparse.hpp, compiled once per instruction set: sparse_avx512.cpp, sparse_avx2.cpp,
// sparse_baseline.cpp include this with their own compile flags. It therefore includes no header with inline functions:
// the linker would keep one copy of those for the whole program, perhaps the one that this processor cannot run.
#include <cstdint>

namespace flagstone::kernel {

/// One call for raw pointers; leading dimensions in elements.
struct SparseJob {
  std::int64_t rows;
  const std::int64_t* pointers;
  const void *values, *columns;
  const void* x;  // null: T is given
  std::int64_t ldx;
  void* y;  // null: only T is wanted
  std::int64_t ldy;
  void* t;  // null: not kept
  std::int64_t ldt;
  const double* shift;  // null: none
  double* sums;         // null: not needed
  std::int64_t width;
};
using SparseFunction = void (*)(const SparseJob&);
/// [float32, float64][uint16, uint32, uint64 columns]
struct SparseTable {
  SparseFunction at[2][3];
};
extern const SparseTable sparse_avx512, sparse_avx2, sparse_baseline;

}  // namespace flagstone::kernel

#ifdef FLAGSTONE_VECTOR_BYTES  // set by the three including sources
namespace flagstone::kernel {
namespace {

template <class Real, int bytes>
struct Vector {
  typedef Real type __attribute__((vector_size(bytes), aligned(sizeof(Real)), may_alias));
};
template <class Real>
struct Vector<Real, 1> {
  using type = Real;
};

/// `count` vectors of V side by side, columns [at, at + count * lanes) of X, Y and T. The sum over a row stays in
/// registers; with fewer vectors than the multiplier's latency hides, several values of the row go side by side.
template <class Real, class Column, class V, int count>
void rows_block(const SparseJob& job, std::int64_t at) {
  constexpr int lanes = sizeof(V) / sizeof(Real);
  constexpr int ways = count >= 4 ? 1 : count == 1 ? 4 : 2;
  constexpr bool prefetches = count * sizeof(V) >= 128;
  constexpr std::int64_t ahead = 16;
  const std::int64_t base = job.pointers[0], end = job.pointers[job.rows] - base;
  const Real* values = static_cast<const Real*>(job.values);
  const Column* columns = static_cast<const Column*>(job.columns);
  const Real* x = static_cast<const Real*>(job.x) + at;
  Real* y = static_cast<Real*>(job.y) + at;
  V shift[count] = {};
  double sums[count * lanes] = {};
  for (int k = 0; job.shift && k < count * lanes; ++k)
    reinterpret_cast<Real*>(shift)[k] = static_cast<Real>(job.shift[at + k]);

  for (std::int64_t i = 0; i < job.rows; ++i) {
    const std::int64_t first = job.pointers[i] - base, last = job.pointers[i + 1] - base;
    Real* kept = job.t ? static_cast<Real*>(job.t) + i * job.ldt + at : nullptr;
    V t[ways][count] = {};
    if (job.x) {
      std::int64_t p = first;
      for (; p + ways <= last; p += ways) {
#pragma GCC unroll 4
        for (int w = 0; w < ways; ++w) {
          const V* row = reinterpret_cast<const V*>(x + static_cast<std::int64_t>(columns[p + w]) * job.ldx);
          if constexpr (prefetches) {
            const std::int64_t next = p + w + ahead < end ? p + w + ahead : p + w;
            const char* there = reinterpret_cast<const char*>(x + static_cast<std::int64_t>(columns[next]) * job.ldx);
#pragma GCC unroll 4
            for (int line = 0; line < static_cast<int>(count * sizeof(V)); line += 64) __builtin_prefetch(there + line);
          }
          const Real value = values[p + w];
#pragma GCC unroll 8
          for (int k = 0; k < count; ++k) t[w][k] += value * row[k];
        }
      }
      for (; p < last; ++p) {
        const V* row = reinterpret_cast<const V*>(x + static_cast<std::int64_t>(columns[p]) * job.ldx);
#pragma GCC unroll 8
        for (int k = 0; k < count; ++k) t[0][k] += values[p] * row[k];
      }
#pragma GCC unroll 4
      for (int w = 1; w < ways; ++w)
#pragma GCC unroll 8
        for (int k = 0; k < count; ++k) t[0][k] += t[w][k];
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) t[0][k] -= shift[k];
      if (kept)
#pragma GCC unroll 8
        for (int k = 0; k < count; ++k) reinterpret_cast<V*>(kept)[k] = t[0][k];
    } else {
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) t[0][k] = reinterpret_cast<const V*>(kept)[k];
    }
    if (!job.y) continue;
    if (job.sums)
      for (int k = 0; k < count * lanes; ++k) sums[k] += static_cast<double>(reinterpret_cast<const Real*>(t[0])[k]);
    for (std::int64_t p = first; p < last; ++p) {
      V* row = reinterpret_cast<V*>(y + static_cast<std::int64_t>(columns[p]) * job.ldy);
      const Real value = values[p];
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) row[k] += value * t[0][k];
    }
  }
  for (int k = 0; job.sums && job.y && k < count * lanes; ++k) job.sums[at + k] += sums[k];
}

/// Blocks of 256, 128 and 64 bytes, then what remains in vectors of 16 bytes and single elements.
template <class Real, class Column>
void rows_all(const SparseJob& job) {
  constexpr int bytes = FLAGSTONE_VECTOR_BYTES;
  using Wide = typename Vector<Real, bytes>::type;
  using Narrow = typename Vector<Real, 16>::type;
  constexpr int lanes = bytes / sizeof(Real), narrow = 16 / sizeof(Real);
  constexpr int most = bytes == 16 ? 8 : 256 / bytes;  // more would spill from 16 registers
  std::int64_t at = 0;
  const auto left = [&] { return job.width - at; };
  for (; left() >= most * lanes; at += most * lanes) rows_block<Real, Column, Wide, most>(job, at);
  for (; left() >= most / 2 * lanes; at += most / 2 * lanes) rows_block<Real, Column, Wide, most / 2>(job, at);
  if constexpr (most >= 4)
    for (; left() >= most / 4 * lanes; at += most / 4 * lanes) rows_block<Real, Column, Wide, most / 4>(job, at);
  if (left() >= 3 * narrow) rows_block<Real, Column, Narrow, 3>(job, at), at += 3 * narrow;
  if (left() >= 2 * narrow) rows_block<Real, Column, Narrow, 2>(job, at), at += 2 * narrow;
  if (left() >= narrow) rows_block<Real, Column, Narrow, 1>(job, at), at += narrow;
  if (left() == 3) rows_block<Real, Column, Real, 3>(job, at), at += 3;
  if (left() == 2) rows_block<Real, Column, Real, 2>(job, at), at += 2;
  if (left() == 1) rows_block<Real, Column, Real, 1>(job, at);
}

constexpr SparseTable make_table() {
  return {{{rows_all<float, std::uint16_t>, rows_all<float, std::uint32_t>, rows_all<float, std::uint64_t>},
           {rows_all<double, std::uint16_t>, rows_all<double, std::uint32_t>, rows_all<double, std::uint64_t>}}};
}

}  // namespace
}  // namespace flagstone::kernel
#endif
