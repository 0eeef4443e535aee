#pragma once
// Sparse products and transposes on headerless files: values, column indices and row pointers, each a flat file.
#include <complex>
#include <cstddef>

#include "flagstone/flash/flash_ptr.hpp"
#include "flagstone/flash/matrix_argument.hpp"

namespace flagstone::flash {

/// A as three flat files: rows + 1 pointers from 0 on, as many indices (from 0, increasing in a row) and values as the
/// last of them says.
struct CsrFiles {
  Index rows = 0, cols = 0;
  Place values, columns, pointers;
  Dtype value = Dtype::float64, index = Dtype::int64;
};

struct CsrmmCall {
  Transpose transa = Transpose::none;
  CsrFiles a;
  Index n = 0;
  std::complex<double> alpha = 1, beta = 0;
  Order order = Order::row_major;  // of B and C
  MatrixArgument b, c;             // leading 0: rows (columns) follow one another
  Dtype dtype = Dtype::float64;
};

/// C := alpha op(A) B + beta C, in place: the function behind csrmm() and csrgemv(). Where beta is not 0, or C overlaps
/// B, the old one is copied to the runtime's scratch first. Not atomic, as gemm. Cost: sparse::csrmm's.
Statistics csrmm(Runtime& runtime, const CsrmmCall& call);

struct CsrcscCall {
  CsrFiles a, t;
  std::size_t entry = 0;                       // bytes of one on its way
  std::size_t column = 0, row = 0, value = 0;  // where they are in it
};

/// The function behind csrcsc().
Statistics csrcsc(Runtime& runtime, const CsrcscCall& call);

namespace detail {
template <class I>
concept CsrIndex =
    std::is_same_v<std::remove_const_t<I>, std::int32_t> || std::is_same_v<std::remove_const_t<I>, std::int64_t>;
template <class T>
concept CsrNumber = std::is_same_v < std::remove_const_t<T>,
float > || std::is_same_v<std::remove_const_t<T>, double> ||
    std::is_same_v<std::remove_const_t<T>, std::complex<float>> ||
    std::is_same_v<std::remove_const_t<T>, std::complex<double>>;

template <class V, class I>
CsrFiles csr_files(Index m, Index k, const flash_ptr<V>& a, const flash_ptr<I>& ia, const flash_ptr<I>& ja) {
  return {m, k, Place::of(a), Place::of(ja), Place::of(ia), dtype_of<V>(), dtype_of<I>()};
}
}  // namespace detail

/// C := alpha op(A) B + beta C. A is m x k as it is stored: values a, pointers ia (m + 1, from 0), column indices ja,
/// of int32 or int64; op(A) B and C have n columns. b and c: flash_ptr<T> or T*, T float, double or complex of these
/// (where values are complex), rows (columns where `ord_b` says so) ldb and ldc apart; 0: one after the other.
template <class V, class I, class B, class C, class T = detail::element_t<C>>
requires(detail::CsrIndex<I>&& detail::CsrNumber<T> && !std::is_const_v<T> &&
         std::is_same_v<T, std::remove_const_t<detail::element_t<B>>>) Statistics
    csrmm(Runtime& runtime, Transpose transa, Index m, Index n, Index k, std::type_identity_t<T> alpha,
          std::type_identity_t<T> beta, const flash_ptr<V>& a, const flash_ptr<I>& ia, const flash_ptr<I>& ja,
          Order ord_b, const B& b, const C& c, Index ldb = 0, Index ldc = 0) {
  return csrmm(runtime, CsrmmCall{transa,
                                  detail::csr_files(m, k, a, ia, ja),
                                  n,
                                  std::complex<double>(alpha),
                                  std::complex<double>(beta),
                                  ord_b,
                                  {Place::of(b), ldb},
                                  {Place::of(c), ldc},
                                  dtype_of<T>()});
}

/// c := op(A) b of vectors; A is m x n as it is stored.
template <class V, class I, class B, class C, class T = detail::element_t<C>>
requires(detail::CsrIndex<I>&& detail::CsrNumber<T> && !std::is_const_v<T> &&
         std::is_same_v<T, std::remove_const_t<detail::element_t<B>>>) Statistics
    csrgemv(Runtime& runtime, Transpose transa, Index m, Index n, const flash_ptr<V>& a, const flash_ptr<I>& ia,
            const flash_ptr<I>& ja, const B& b, const C& c) {
  return csrmm(runtime, transa, m, 1, n, T{1}, T{0}, a, ia, ja, Order::row_major, b, c);
}

/// Aᵀ by rows, of A m x n by rows (or, the same: A by columns): at := values, iat := n + 1 pointers, jat := the m-range
/// indices of each column, increasing. V is any number; the outputs are as long as the inputs. Cost: two reads and
/// two writes of the entries beside one of row numbers to the runtime's scratch; 8 (n + 1) bytes held. Entries are
/// sorted by the bytes of their columns, not by comparison.
template <class V, class I>
requires(detail::CsrIndex<I> && (std::is_arithmetic_v<V> || detail::CsrNumber<V>)&&!std::is_const_v<V> &&
         !std::is_const_v<I>) Statistics
    csrcsc(Runtime& runtime, Index m, Index n, const flash_ptr<const V>& a, const flash_ptr<const I>& ia,
           const flash_ptr<const I>& ja, const flash_ptr<V>& at, const flash_ptr<I>& iat, const flash_ptr<I>& jat) {
  struct Entry {
    I column, row;
    V value;
  };
  CsrcscCall call{detail::csr_files(m, n, a, ia, ja), detail::csr_files(n, m, at, iat, jat), sizeof(Entry)};
  call.column = offsetof(Entry, column), call.row = offsetof(Entry, row), call.value = offsetof(Entry, value);
  return csrcsc(runtime, call);
}
/// The same of pointers that may write.
template <class V, class I>
Statistics csrcsc(Runtime& runtime, Index m, Index n, const flash_ptr<V>& a, const flash_ptr<I>& ia,
                  const flash_ptr<I>& ja, const flash_ptr<V>& at, const flash_ptr<I>& iat, const flash_ptr<I>& jat) {
  return csrcsc(runtime, m, n, flash_ptr<const V>(a), flash_ptr<const I>(ia), flash_ptr<const I>(ja), at, iat, jat);
}

}  // namespace flagstone::flash
