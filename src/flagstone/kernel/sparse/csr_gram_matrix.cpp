// csr_gram_matrix of csr.hpp: the lower triangle of AᵀA, scattered or through BLAS.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/sparse/csr.hpp"

namespace flagstone::kernel {
namespace {

// Measured on one of two busy cores, as flops of a BLAS that does 4.5e10 a second: a scattered multiply-add takes 1.1
// ns, finding a value's place in a strip 8 ns.
constexpr double flops_of_a_pair = 50, flops_of_a_value = 360;
constexpr Index dense_rows = 128;                // rows made dense at a time
constexpr std::size_t resident_bytes = 1 << 20;  // of G: half of a second-level cache

/// Columns of a row that fall into [low, high) start at cursor and end at the return value; sorted rows only.
template <class Column>
Index advance(const Column* columns, Index cursor, Index end, Index high) {
  while (cursor < end && static_cast<Index>(columns[cursor]) < high) ++cursor;
  return cursor;
}

/// g[j1, j2] += a1 a2 for the entries at [from, to) of a sorted row and everything before each of them.
template <class Real, class Column>
void scatter_sorted(const Column* columns, const Real* values, Index from, Index to, double* g, Index ld, Index first) {
  for (Index p = from; p < to; ++p) {
    double* row = g + (static_cast<Index>(columns[p]) - first) * ld;
    const double value = static_cast<double>(values[p]);
    for (Index q = 0; q <= p; ++q) row[columns[q]] += value * static_cast<double>(values[q]);
  }
}

/// The same for columns in any order, repeated ones included.
template <class Real, class Column>
void scatter_any(const Column* columns, const Real* values, Index n, double* g, Index ld, Index first, Index low,
                 Index high) {
  for (Index p = 0; p < n; ++p) {
    const auto j = static_cast<Index>(columns[p]);
    if (j < low || j >= high) continue;
    for (Index q = 0; q < n; ++q)
      if (static_cast<Index>(columns[q]) <= j)
        g[(j - first) * ld + static_cast<Index>(columns[q])] +=
            static_cast<double>(values[p]) * static_cast<double>(values[q]);
  }
}

/// Rows of G in strips that stay in cache while all rows of A pass by. Reads A once per strip.
template <class Real, class Column>
void scattered(const CsrRows& a, Index first, const Tile& g, std::byte* scratch) {
  const auto* columns = reinterpret_cast<const Column*>(a.columns);
  const auto* values = reinterpret_cast<const Real*>(a.values);
  const Index ld = g.strides[0] / 8, last = first + g.shape[0];
  const Index strip = std::max<Index>(1, static_cast<Index>(resident_bytes / 8) / std::max<Index>(1, last));
  constexpr Index group = dense_rows * 64;  // rows whose cursors fit the scratch
  auto* cursor = reinterpret_cast<std::int32_t*>(scratch);
  for (Index start = 0; start < a.rows; start += group) {
    const Index stop = std::min(a.rows, start + group);
    for (Index i = start; i < stop; ++i) {
      const Column* row = columns + (a.pointers[i] - a.pointers[0]);
      const Index n = a.pointers[i + 1] - a.pointers[i];
      bool sorted = n < (Index{1} << 31);
      for (Index p = 1; sorted && p < n; ++p) sorted = row[p - 1] < row[p];
      cursor[i - start] = sorted ? static_cast<std::int32_t>(advance(row, 0, n, first)) : -1;
    }
    for (Index low = first; low < last; low += strip) {
      const Index high = std::min(last, low + strip);
      for (Index i = start; i < stop; ++i) {
        const Index at = a.pointers[i] - a.pointers[0], n = a.pointers[i + 1] - a.pointers[i];
        std::int32_t& from = cursor[i - start];
        if (from < 0) {
          scatter_any(columns + at, values + at, n, g.as<double>(), ld, first, low, high);
          continue;
        }
        const Index to = advance(columns + at, from, n, high);
        scatter_sorted(columns + at, values + at, from, to, g.as<double>(), ld, first);
        from = static_cast<std::int32_t>(to);
      }
    }
  }
}

/// D := rows as float64, then the strip's lower triangle of G += DᵀD: a rectangle before the diagonal, a triangle on
/// it.
template <class Real, class Column>
void through_blas(const CsrRows& a, Index first, const Tile& g, std::byte* scratch) {
  const auto* columns = reinterpret_cast<const Column*>(a.columns);
  const auto* values = reinterpret_cast<const Real*>(a.values);
  const Index n = first + g.shape[0];
  auto* dense = reinterpret_cast<double*>(scratch);
  for (Index start = 0; start < a.rows; start += dense_rows) {
    const Index rows = std::min(dense_rows, a.rows - start);
    std::fill(dense, dense + rows * n, 0.0);
    for (Index i = 0; i < rows; ++i)
      for (Index p = a.pointers[start + i]; p < a.pointers[start + i + 1]; ++p) {
        const Index at = p - a.pointers[0];
        if (static_cast<Index>(columns[at]) < n)
          dense[i * n + static_cast<Index>(columns[at])] += static_cast<double>(values[at]);
      }
    const Tile d{scratch, Dtype::float64, {rows, n}, {n * 8, 8}, 0};
    const Tile own = subtile(d, {{0, first}, {rows, n - first}});
    if (first > 0) {
      const Tile before = subtile(d, {{0, 0}, {rows, first}});
      gemm(1, own, {true, false}, before, {}, 1, subtile(g, {{0, 0}, {n - first, first}}), nullptr);
    }
    syrk(1, own, true, 1, subtile(g, {{0, first}, {n - first, n - first}}));
  }
}

template <class Real>
void choose(bool dense, const CsrRows& a, Index first, const Tile& g, std::byte* scratch) {
  const auto call = [&]<class Column>(Column) {
    dense ? through_blas<Real, Column>(a, first, g, scratch) : scattered<Real, Column>(a, first, g, scratch);
  };
  if (a.column_dtype == Dtype::uint16)
    call(std::uint16_t{});
  else if (a.column_dtype == Dtype::uint32)
    call(std::uint32_t{});
  else
    call(std::uint64_t{});
}

}  // namespace

GramMatrixCost gram_matrix_cost(Index rows, Index cols, double pairs) {
  const auto m = static_cast<double>(rows), n = static_cast<double>(cols);
  const double values = std::sqrt(pairs * m);  // of rows of equal length; never fewer than there are
  const double dense = 1.2 * m * n * (n + 1), scattered = 0.5 * pairs * flops_of_a_pair + values * flops_of_a_value;
  return {dense < scattered, std::min(dense, scattered)};
}

std::size_t gram_matrix_scratch(Index cols) {
  return std::max<std::size_t>(dense_rows * static_cast<std::size_t>(cols) * 8, dense_rows * 64 * sizeof(std::int32_t));
}

void csr_gram_matrix(const CsrRows& a, Dtype value_dtype, Index first, const Tile& g, std::byte* scratch) {
  if (g.shape.size() != 2 || g.shape[1] != a.cols || first + g.shape[0] > a.cols || g.dtype != Dtype::float64 ||
      (a.cols > 1 && g.strides[1] != 8))
    throw ShapeError("csr_gram_matrix: G must be row-major float64 with A's " + std::to_string(a.cols) + " columns.");
  double pairs = 0;
  for (Index i = 0; i < a.rows; ++i) {
    const auto n = static_cast<double>(a.pointers[i + 1] - a.pointers[i]);
    pairs += n * n;
  }
  const bool dense = gram_matrix_cost(a.rows, a.cols, pairs).dense;
  if (value_dtype == Dtype::float32)
    choose<float>(dense, a, first, g, scratch);
  else
    choose<double>(dense, a, first, g, scratch);
}

}  // namespace flagstone::kernel
