#pragma once
// LAPACKE's norms of matrices on disk pointers and plain ones.
#include "flagstone/flash/matrix_argument.hpp"

namespace flagstone::flash {

/// LAPACK's letters, so that they can be cast to these; of `two` there is none.
enum class Norm : char { max = 'M', one = '1', inf = 'I', fro = 'F' };

/// What of a matrix counts.
enum class Seen : std::uint8_t { whole, symmetric, hermitian, triangular };

struct NormCall {
  const char* who = "lange";
  Norm norm = Norm::fro;
  Order order = Order::row_major;
  Seen seen = Seen::whole;
  Uplo uplo = Uplo::lower;               // of what is seen by one triangle
  Diagonal diagonal = Diagonal::stored;  // of a triangular one
  Index m = 0, n = 0;
  MatrixArgument a = {};
  Dtype dtype = Dtype::float64;
};
/// The largest |a|, the largest sum of |a| of a column or of a row, or the square root of the sum of |a|², which
/// neither overflows nor underflows (three levels, as in LAPACK 3.10). NaN where A has one, as LAPACK 3.12; 0 of
/// nothing. In double precision for every dtype. One read of A; of a symmetric or Hermitian one two of its triangle. Of
/// sums 8 bytes a row or column. The same bits for every limit and number of workers.
double norm(Runtime& runtime, const NormCall& call);

namespace detail {
/// A norm of what the pointer's element says.
template <class A>
double norm_of(Runtime& runtime, NormCall call, const A& a, Index lda) {
  call.a = {Place::of(a), lda}, call.dtype = dtype_of<std::remove_const_t<element_t<A>>>();
  return norm(runtime, call);
}
}  // namespace detail

template <class A>
double lange(Runtime& runtime, Order order, Norm which, Index m, Index n, const A& a, Index lda) {
  return detail::norm_of(runtime, {"lange", which, order, Seen::whole, Uplo::lower, Diagonal::stored, m, n}, a, lda);
}
/// Of a symmetric matrix; of a Hermitian one with lanhe.
template <class A>
double lansy(Runtime& runtime, Order order, Norm which, Uplo uplo, Index n, const A& a, Index lda) {
  return detail::norm_of(runtime, {"lansy", which, order, Seen::symmetric, uplo, Diagonal::stored, n, n}, a, lda);
}
template <class A>
double lanhe(Runtime& runtime, Order order, Norm which, Uplo uplo, Index n, const A& a, Index lda) {
  return detail::norm_of(runtime, {"lanhe", which, order, Seen::hermitian, uplo, Diagonal::stored, n, n}, a, lda);
}
/// Of a triangle or trapezoid.
template <class A>
double lantr(Runtime& runtime, Order order, Norm which, Uplo uplo, Diagonal diagonal, Index m, Index n, const A& a,
             Index lda) {
  return detail::norm_of(runtime, {"lantr", which, order, Seen::triangular, uplo, diagonal, m, n}, a, lda);
}
/// Of a square one.
template <class A>
double lantr(Runtime& runtime, Order order, Norm which, Uplo uplo, Diagonal diagonal, Index n, const A& a, Index lda) {
  return lantr(runtime, order, which, uplo, diagonal, n, n, a, lda);
}

}  // namespace flagstone::flash
