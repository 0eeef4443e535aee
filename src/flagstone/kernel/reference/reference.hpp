#pragma once
// Naive loops in the widest precision: the oracle of the kernels' tests. Never called by the library.
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel::reference {

using Wide = std::complex<double>;

/// Element (i, j) of a 2-D float or complex tile, at any stride.
inline Wide get(const Tile& t, Index i, Index j) {
  const std::byte* at = t.data + i * t.strides[0] + j * t.strides[1];
  return visit_blas_type(t.dtype, [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return Wide(value);
  });
}

inline void set(const Tile& t, Index i, Index j, Wide value) {
  std::byte* at = t.data + i * t.strides[0] + j * t.strides[1];
  visit_blas_type(t.dtype, [&](auto narrow) {
    if constexpr (std::is_floating_point_v<decltype(narrow)>)
      narrow = static_cast<decltype(narrow)>(value.real());
    else
      narrow = decltype(narrow)(value);
    std::memcpy(at, &narrow, sizeof narrow);
  });
}

/// The bytes of an integer, as they are stored.
inline std::uint64_t get_integer(const Tile& t, Index i, Index j) {
  std::uint64_t value = 0;
  std::memcpy(&value, t.data + i * t.strides[0] + j * t.strides[1], size_of(t.dtype));
  return value;
}

/// C := alpha op(A) op(B) + beta C of whole numbers, modulo 2^bits; of booleans, or of ands.
inline void integer_gemm(std::int64_t alpha, const Tile& a, bool transpose_a, const Tile& b, bool transpose_b,
                         std::int64_t beta, const Tile& c) {
  for (Index i = 0; i < c.shape[0]; ++i)
    for (Index j = 0; j < c.shape[1]; ++j) {
      std::uint64_t sum = 0;
      bool any = beta != 0 && get_integer(c, i, j) != 0;
      for (Index k = 0; k < a.shape[transpose_a ? 0 : 1]; ++k) {
        const std::uint64_t x = transpose_a ? get_integer(a, k, i) : get_integer(a, i, k),
                            y = transpose_b ? get_integer(b, j, k) : get_integer(b, k, j);
        sum += x * y;
        any = any || (alpha != 0 && x != 0 && y != 0);
      }
      sum = static_cast<std::uint64_t>(alpha) * sum + static_cast<std::uint64_t>(beta) * get_integer(c, i, j);
      if (c.dtype == Dtype::boolean) sum = any;
      std::memcpy(c.data + i * c.strides[0] + j * c.strides[1], &sum, size_of(c.dtype));
    }
}

/// C := alpha op(A) op(B) + beta C.
inline void gemm(Wide alpha, const Tile& a, bool transpose_a, bool conjugate_a, const Tile& b, bool transpose_b,
                 bool conjugate_b, Wide beta, const Tile& c) {
  const Index depth = a.shape[transpose_a ? 0 : 1];
  for (Index i = 0; i < c.shape[0]; ++i)
    for (Index j = 0; j < c.shape[1]; ++j) {
      Wide sum = 0;
      for (Index k = 0; k < depth; ++k) {
        const Wide x = transpose_a ? get(a, k, i) : get(a, i, k), y = transpose_b ? get(b, j, k) : get(b, k, j);
        sum += (conjugate_a ? std::conj(x) : x) * (conjugate_b ? std::conj(y) : y);
      }
      set(c, i, j, alpha * sum + (beta == 0.0 ? Wide{} : beta * get(c, i, j)));
    }
}

/// Element (i, j) of op(A).
inline Wide get(const Tile& a, bool transpose, bool conjugate, Index i, Index j) {
  const Wide x = transpose ? get(a, j, i) : get(a, i, j);
  return conjugate ? std::conj(x) : x;
}

/// One triangle of the n x n tile A := its Cholesky factor, row by row of L. Returns LAPACK's info.
inline Index cholesky(const Tile& a, bool lower) {
  const auto at = [&](Index i, Index j) { return lower ? get(a, i, j) : std::conj(get(a, j, i)); };
  const auto put = [&](Index i, Index j, Wide x) { lower ? set(a, i, j, x) : set(a, j, i, std::conj(x)); };
  for (Index i = 0; i < a.shape[0]; ++i)
    for (Index j = 0; j <= i; ++j) {
      Wide sum = at(i, j);
      for (Index k = 0; k < j; ++k) sum -= at(i, k) * std::conj(at(j, k));
      if (i > j) {
        put(i, j, sum / at(j, j));
        continue;
      }
      if (!(sum.real() > 0)) return i + 1;
      put(i, i, std::sqrt(sum.real()));
    }
  return 0;
}

/// B := alpha op(A)⁻¹ B by substitution; `lower`: op(A) is, of which the other triangle is not read.
inline void solve(bool lower, bool unit, Wide alpha, const Tile& a, bool transpose, bool conjugate, const Tile& b) {
  const Index n = b.shape[0];
  for (Index j = 0; j < b.shape[1]; ++j)
    for (Index step = 0; step < n; ++step) {
      const Index i = lower ? step : n - 1 - step;
      Wide sum = alpha * get(b, i, j);
      for (Index k = lower ? 0 : i + 1; k < (lower ? i : n); ++k)
        sum -= get(a, transpose, conjugate, i, k) * get(b, k, j);
      set(b, i, j, unit ? sum : sum / get(a, transpose, conjugate, i, i));
    }
}

/// A CSR panel as a dense rows x cols matrix minus 1 muᵀ (mu: null for none); duplicates add up.
template <class Value, class Column>
std::vector<double> densify(Index rows, Index cols, const Index* pointers, const Column* columns, const Value* values,
                            const double* mu) {
  std::vector<double> dense(static_cast<std::size_t>(rows * cols));
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; mu && j < cols; ++j) dense[i * cols + j] = -mu[j];
    for (Index p = pointers[i] - pointers[0]; p < pointers[i + 1] - pointers[0]; ++p)
      dense[i * cols + static_cast<Index>(columns[p])] += static_cast<double>(values[p]);
  }
  return dense;
}

/// Y (m x b) := A X, or Y (n x b) := Aᵀ X, all dense, row-major, float64.
inline std::vector<double> multiply(const std::vector<double>& a, Index m, Index n, const std::vector<double>& x,
                                    Index b, bool transpose) {
  std::vector<double> y(static_cast<std::size_t>((transpose ? n : m) * b));
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j)
      for (Index k = 0; k < b; ++k)
        (transpose ? y[j * b + k] : y[i * b + k]) += a[i * n + j] * (transpose ? x[i * b + k] : x[j * b + k]);
  return y;
}

/// k(x, y) of two points of d coordinates, from differences, by its formula.
template <class Kernel>
double pair(const Kernel& kernel, const double* x, const double* y, Index d) {
  double square = 0, product = 0, xx = 0, yy = 0;
  for (Index k = 0; k < d; ++k) {
    const double length = kernel.length.empty() ? 1 : kernel.length[kernel.length.size() == 1 ? 0 : k];
    const double difference = (x[k] - y[k]) / length;
    square += difference * difference, product += x[k] * y[k], xx += x[k] * x[k], yy += y[k] * y[k];
  }
  const double r = std::sqrt(square);
  switch (static_cast<int>(kernel.value)) {
    case 0:
      return std::exp(-kernel.gamma * square);
    case 1:
      return std::exp(-r);
    case 2:
      return (1 + std::sqrt(3.0) * r) * std::exp(-std::sqrt(3.0) * r);
    case 3:
      return (1 + std::sqrt(5.0) * r + 5 * square / 3) * std::exp(-std::sqrt(5.0) * r);
    case 4:
      return product;
    case 5:
      return std::pow(kernel.gamma * product + kernel.coef0, kernel.degree);
    default:
      return xx * yy == 0 ? 0 : product / std::sqrt(xx * yy);
  }
}

}  // namespace flagstone::kernel::reference
