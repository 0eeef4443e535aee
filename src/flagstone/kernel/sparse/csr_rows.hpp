#pragma once
// The row loops of csr.hpp, compiled once per instruction set: csr_avx512.cpp, csr_avx2.cpp,
// csr_baseline.cpp include this with their own compile flags. It therefore includes no header with inline functions:
// the linker would keep one copy of those for the whole program, perhaps the one that this processor cannot run.
#include <cstdint>

namespace flagstone::kernel {

/// One call for raw pointers; leading dimensions in elements.
struct SparseJob {
  std::int64_t rows, cols;
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
  bool accumulate;      // T goes on from what it holds
  bool conjugated;      // complex: Y += conj(A)ᵀ T
  const void* records;  // of `scattered`: row of T, row of Y (uint16 both), value; `rows` is their number
};
using SparseFunction = void (*)(const SparseJob&);
/// [float32, float64, complex64, complex128][uint16, uint32, uint64 columns]; `ordered`: a value of T is one sum in the
/// stored order, whatever the width of the block is. Complex sums always are.
/// `scattered`: Y += Aᵀ T of records.
struct SparseTable {
  SparseFunction at[4][3], ordered[4][3], scattered[4];
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

/// i times complex numbers that lie as (re, im) side by side: (-im, re).
template <class Real, class V>
inline V times_i(V x) {
  constexpr int lanes = sizeof(V) / sizeof(Real);
  V turned = {};
#pragma GCC unroll 16
  for (int lane = 0; lane < lanes; lane += 2) turned[lane] = -x[lane + 1], turned[lane + 1] = x[lane];
  return turned;
}

/// `count` vectors of V side by side: columns [at, at + count * lanes) of X, Y and T.
template <class Real, class Column, class V, int count>
class ColumnBlock {
 public:
  static constexpr int lanes = sizeof(V) / sizeof(Real), width = count * lanes;

  ColumnBlock(const SparseJob& job, std::int64_t at)
      : values_(static_cast<const Real*>(job.values)),
        columns_(static_cast<const Column*>(job.columns)),
        x_(static_cast<const Real*>(job.x) + at),
        y_(static_cast<Real*>(job.y) + at),
        ldx_(job.ldx),
        ldy_(job.ldy) {}

  /// t += value * X[column, :] for the values from p on, up to `last` or the first column that is not below `limit`;
  /// returns where it stopped. Sums stay in registers; with fewer vectors than hide the multiplier's latency, several
  /// values go side by side, unless their order is asked for.
  template <bool ordered>
  std::int64_t gather(std::int64_t p, std::int64_t last, std::uint64_t limit, V* t) const {
    constexpr int ways = ordered || count >= 4 ? 1 : count == 1 ? 4 : 2;
    V sum[ways][count] = {};
    for (int k = 0; k < count; ++k) sum[0][k] = t[k];
    for (; p + ways <= last && columns_[p + ways - 1] < limit; p += ways) {
#pragma GCC unroll 4
      for (int w = 0; w < ways; ++w) accumulate(p + w, sum[w]);
    }
    if constexpr (ways > 1)
      for (; p < last && columns_[p] < limit; ++p) accumulate(p, sum[0]);
#pragma GCC unroll 4
    for (int w = 1; w < ways; ++w)
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) sum[0][k] += sum[w][k];
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) t[k] = sum[0][k];
    return p;
  }

  /// Y[column, :] += value * t, from p on in the same way.
  std::int64_t scatter(std::int64_t p, std::int64_t last, std::uint64_t limit, const V* t) const {
    V kept[count];
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) kept[k] = t[k];
    for (; p < last && columns_[p] < limit; ++p) {
      V* row = reinterpret_cast<V*>(y_ + static_cast<std::int64_t>(columns_[p]) * ldy_);
      const Real value = values_[p];
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) row[k] += value * kept[k];
    }
    return p;
  }

 private:
  void accumulate(std::int64_t p, V* sum) const {
    const V* row = reinterpret_cast<const V*>(x_ + static_cast<std::int64_t>(columns_[p]) * ldx_);
    const Real value = values_[p];
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) sum[k] += value * row[k];
  }

  const Real* values_;
  const Column* columns_;
  const Real* x_;
  Real* y_;
  std::int64_t ldx_, ldy_;
};

/// The same of complex numbers, as pairs of reals: `at`, lanes and width count reals. a x is re(a) x + im(a) (i x), so
/// a sum takes two steps a value, in the stored order.
template <class Real, class Column, class V, int count>
class ComplexBlock {
 public:
  static constexpr int lanes = sizeof(V) / sizeof(Real), width = count * lanes;

  ComplexBlock(const SparseJob& job, std::int64_t at)
      : values_(static_cast<const Real*>(job.values)),
        columns_(static_cast<const Column*>(job.columns)),
        x_(static_cast<const Real*>(job.x) + at),
        y_(static_cast<Real*>(job.y) + at),
        ldx_(job.ldx),
        ldy_(job.ldy),
        sign_(job.conjugated ? Real{-1} : Real{1}) {}

  template <bool>
  std::int64_t gather(std::int64_t p, std::int64_t last, std::uint64_t limit, V* t) const {
    V sum[count];
    for (int k = 0; k < count; ++k) sum[k] = t[k];
    for (; p < last && columns_[p] < limit; ++p) {
      const V* row = reinterpret_cast<const V*>(x_ + static_cast<std::int64_t>(columns_[p]) * ldx_);
      const Real re = values_[2 * p], im = values_[2 * p + 1];
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) {
        const V x = row[k];
        sum[k] += re * x;
        sum[k] += im * times_i<Real, V>(x);
      }
    }
    for (int k = 0; k < count; ++k) t[k] = sum[k];
    return p;
  }

  std::int64_t scatter(std::int64_t p, std::int64_t last, std::uint64_t limit, const V* t) const {
    V kept[count], turned[count];
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) kept[k] = t[k], turned[k] = times_i<Real, V>(t[k]);
    for (; p < last && columns_[p] < limit; ++p) {
      V* row = reinterpret_cast<V*>(y_ + static_cast<std::int64_t>(columns_[p]) * ldy_);
      const Real re = values_[2 * p], im = sign_ * values_[2 * p + 1];
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) {
        row[k] += re * kept[k];
        row[k] += im * turned[k];
      }
    }
    return p;
  }

 private:
  const Real* values_;
  const Column* columns_;
  const Real* x_;
  Real* y_;
  std::int64_t ldx_, ldy_;
  Real sign_;
};

/// Columns of A whose rows of X (or Y) stay in the second-level cache while a group of rows passes over them; all of
/// them where rows are so short that a strip would hold only a few of their values.
inline std::uint64_t strip_of(const SparseJob& job, std::int64_t row_bytes) {
  constexpr std::int64_t cached = 64 << 10, least_values = 8;
  const std::int64_t nnz = job.pointers[job.rows] - job.pointers[0];
  const std::int64_t most = nnz / (job.rows * least_values);
  std::int64_t strips = job.cols * row_bytes / cached + 1;
  if (strips > most) strips = strips > 4 * most ? 1 : most;  // far from fitting: strips would only cost
  return static_cast<std::uint64_t>((job.cols + strips - 1) / strips);
}

/// Groups of rows pass over X, then over Y, strip by strip of columns. Every value is used once and in the stored order
/// in each pass, sorted or not: a row goes on where its last strip ended.
template <class Real, class V, int count, bool ordered, class Block>
void rows_block(const SparseJob& job, std::int64_t at) {
  constexpr std::int64_t group = 512;
  const Block block(job, at);
  const std::int64_t base = job.pointers[0];
  const std::uint64_t strip = strip_of(job, Block::width * sizeof(Real)), cols = static_cast<std::uint64_t>(job.cols);
  double sums[Block::width] = {};
  for (std::int64_t start = 0; start < job.rows; start += group) {
    const std::int64_t rows = start + group < job.rows ? group : job.rows - start;
    const std::int64_t* pointers = job.pointers + start;
    V t[group][count];
    std::int64_t cursor[group];
    Real* kept = job.t ? static_cast<Real*>(job.t) + start * job.ldt + at : nullptr;
    if (job.x) {
      for (std::int64_t i = 0; i < rows; ++i) {
        cursor[i] = pointers[i] - base;
        for (int k = 0; k < Block::width; ++k)
          reinterpret_cast<Real*>(t[i])[k] = job.accumulate ? kept[i * job.ldt + k]
                                             : job.shift    ? static_cast<Real>(-job.shift[at + k])
                                                            : 0;
      }
      for (std::uint64_t limit = strip;; limit += strip) {
        for (std::int64_t i = 0; i < rows; ++i)
          cursor[i] = block.template gather<ordered>(cursor[i], pointers[i + 1] - base, limit, t[i]);
        if (limit >= cols) break;
      }
    }
    for (std::int64_t i = 0; kept && i < rows; ++i) {
      V* there = reinterpret_cast<V*>(kept + i * job.ldt);
      for (int k = 0; k < count; ++k) (job.x ? there[k] : t[i][k]) = (job.x ? t[i][k] : there[k]);
    }
    if (!job.y) continue;
    for (std::int64_t i = 0; i < rows; ++i) {
      cursor[i] = pointers[i] - base;
      for (int k = 0; job.sums && k < Block::width; ++k)
        sums[k] += static_cast<double>(reinterpret_cast<const Real*>(t[i])[k]);
    }
    for (std::uint64_t limit = strip;; limit += strip) {
      for (std::int64_t i = 0; i < rows; ++i) cursor[i] = block.scatter(cursor[i], pointers[i + 1] - base, limit, t[i]);
      if (limit >= cols) break;
    }
  }
  for (int k = 0; job.sums && job.y && k < Block::width; ++k) job.sums[at + k] += sums[k];
}

/// Adds a record's value times a row of T, which stays in registers, to a row of Y.
template <class Real, class V, int count>
struct RealRecord {
  static constexpr std::int64_t bytes = 4 + sizeof(Real);
  V t[count];
  RealRecord(const V* row, bool) {
    for (int k = 0; k < count; ++k) t[k] = row[k];
  }
  void add(const char* value, V* y) const {
    Real a;
    __builtin_memcpy(&a, value, sizeof a);
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) y[k] += a * t[k];
  }
};
template <class Real, class V, int count>
struct ComplexRecord {
  static constexpr std::int64_t bytes = 4 + 2 * sizeof(Real);
  V t[count], turned[count];
  ComplexRecord(const V* row, bool conjugated) {
    const Real sign = conjugated ? Real{-1} : Real{1};
    for (int k = 0; k < count; ++k) t[k] = row[k], turned[k] = sign * times_i<Real, V>(row[k]);
  }
  void add(const char* value, V* y) const {
    Real a[2];
    __builtin_memcpy(a, value, sizeof a);
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) {
      y[k] += a[0] * t[k];
      y[k] += a[1] * turned[k];
    }
  }
};

/// Y += Aᵀ T or Aᴴ T, record by record.
template <class Real, class V, class Record>
void records_block(const SparseJob& job, std::int64_t at) {
  const char *record = static_cast<const char*>(job.records), *end = record + job.rows * Record::bytes;
  const Real* t = static_cast<const Real*>(job.t) + at;
  Real* y = static_cast<Real*>(job.y) + at;
  const auto place = [](const char* from) {
    std::uint16_t number;
    __builtin_memcpy(&number, from, sizeof number);
    return static_cast<std::int64_t>(number);
  };
  while (record < end) {
    const std::int64_t row = place(record);
    const Record one(reinterpret_cast<const V*>(t + row * job.ldt), job.conjugated);
    do {
      one.add(record + 4, reinterpret_cast<V*>(y + place(record + 2) * job.ldy));
      record += Record::bytes;
    } while (record < end && place(record) == row);
  }
}

/// Calls each<vector, count>(first column) for blocks of 256, 128 and 64 bytes, then for what remains in vectors of 16
/// bytes and single elements.
template <class Real, class Each>
void in_blocks(std::int64_t width, Each each) {
  constexpr int bytes = FLAGSTONE_VECTOR_BYTES;
  using Wide = typename Vector<Real, bytes>::type;
  using Narrow = typename Vector<Real, 16>::type;
  constexpr int lanes = bytes / sizeof(Real), narrow = 16 / sizeof(Real);
  constexpr int most = bytes == 16 ? 8 : 256 / bytes;  // more would spill from 16 registers
  std::int64_t at = 0;
  const auto left = [&] { return width - at; };
  for (; left() >= most * lanes; at += most * lanes) each.template operator()<Wide, most>(at);
  for (; left() >= most / 2 * lanes; at += most / 2 * lanes) each.template operator()<Wide, most / 2>(at);
  if constexpr (most >= 4)
    for (; left() >= most / 4 * lanes; at += most / 4 * lanes) each.template operator()<Wide, most / 4>(at);
  if (left() >= 3 * narrow) each.template operator()<Narrow, 3>(at), at += 3 * narrow;
  if (left() >= 2 * narrow) each.template operator()<Narrow, 2>(at), at += 2 * narrow;
  if (left() >= narrow) each.template operator()<Narrow, 1>(at), at += narrow;
  if (left() == 3) each.template operator()<Real, 3>(at), at += 3;
  if (left() == 2) each.template operator()<Real, 2>(at), at += 2;
  if (left() == 1) each.template operator()<Real, 1>(at);
}

template <class Real, class Column, bool ordered>
void rows_all(const SparseJob& job) {
  in_blocks<Real>(job.width, [&]<class V, int count>(std::int64_t at) {
    rows_block<Real, V, count, ordered, ColumnBlock<Real, Column, V, count>>(job, at);
  });
}

template <class Real>
void records_all(const SparseJob& job) {
  in_blocks<Real>(job.width, [&]<class V, int count>(std::int64_t at) {
    records_block<Real, V, RealRecord<Real, V, count>>(job, at);
  });
}

/// Complex numbers as pairs of reals: blocks of 256 and 64 bytes (baseline: 64), of 16, then single ones.
template <class Real, class Each>
void in_complex_blocks(const SparseJob& given, Each each) {
  constexpr int bytes = FLAGSTONE_VECTOR_BYTES, pair = 2 * sizeof(Real);
  using Wide = typename Vector<Real, bytes>::type;
  using One = typename Vector<Real, pair>::type;
  constexpr int lanes = bytes / sizeof(Real), most = bytes == 16 ? 4 : 256 / bytes, few = bytes == 64 ? 1 : 64 / bytes;
  SparseJob job = given;
  job.width *= 2, job.ldx *= 2, job.ldy *= 2, job.ldt *= 2;
  std::int64_t at = 0;
  const auto left = [&] { return job.width - at; };
  for (; left() >= most * lanes; at += most * lanes) each.template operator()<Wide, most>(job, at);
  if constexpr (few < most)
    for (; left() >= few * lanes; at += few * lanes) each.template operator()<Wide, few>(job, at);
  for (; left() > 0; at += 2) each.template operator()<One, 1>(job, at);
}

template <class Real, class Column>
void complex_rows_all(const SparseJob& given) {
  in_complex_blocks<Real>(given, []<class V, int count>(const SparseJob& job, std::int64_t at) {
    rows_block<Real, V, count, true, ComplexBlock<Real, Column, V, count>>(job, at);
  });
}

template <class Real>
void complex_records_all(const SparseJob& given) {
  in_complex_blocks<Real>(given, []<class V, int count>(const SparseJob& job, std::int64_t at) {
    records_block<Real, V, ComplexRecord<Real, V, count>>(job, at);
  });
}

template <class Real, bool ordered>
constexpr SparseFunction of_columns[3] = {rows_all<Real, std::uint16_t, ordered>,
                                          rows_all<Real, std::uint32_t, ordered>,
                                          rows_all<Real, std::uint64_t, ordered>};

template <class Real>
constexpr SparseFunction of_complex_columns[3] = {complex_rows_all<Real, std::uint16_t>,
                                                  complex_rows_all<Real, std::uint32_t>,
                                                  complex_rows_all<Real, std::uint64_t>};

constexpr SparseTable make_table() {
  SparseTable table{};
  for (int column = 0; column < 3; ++column) {
    table.at[0][column] = of_columns<float, false>[column];
    table.at[1][column] = of_columns<double, false>[column];
    table.ordered[0][column] = of_columns<float, true>[column];
    table.ordered[1][column] = of_columns<double, true>[column];
    table.at[2][column] = table.ordered[2][column] = of_complex_columns<float>[column];
    table.at[3][column] = table.ordered[3][column] = of_complex_columns<double>[column];
  }
  table.scattered[0] = records_all<float>, table.scattered[1] = records_all<double>;
  table.scattered[2] = complex_records_all<float>, table.scattered[3] = complex_records_all<double>;
  return table;
}

}  // namespace
}  // namespace flagstone::kernel
#endif
