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
  MatrixArgument a;
  Dtype dtype = Dtype::float64;
};
/// The largest |a|, the largest sum of |a| of a column or of a row, or the square root of the sum of |a|², which
/// neither overflows nor underflows (three levels, as in LAPACK 3.10). NaN where A has one, as LAPACK 3.12; 0 of
/// nothing. In double precision for every dtype. One read of A; of a symmetric or Hermitian one two of its triangle. Of
/// sums 8 bytes a row or column. The same bits for every limit and number of workers.
double norm(Runtime& runtime, const NormCall& call);

template <class A>
double lange(Runtime& runtime, Order order, Norm which, Index m, Index n, const A& a, Index lda) {
  return norm(runtime, {.norm = which,
                        .order = order,
                        .m = m,
                        .n = n,
                        .a = {Place::of(a), lda},
                        .dtype = dtype_of<std::remove_const_t<detail::element_t<A>>>()});
}
/// Of a symmetric matrix; of a Hermitian one with lanhe.
template <class A>
double lansy(Runtime& runtime, Order order, Norm which, Uplo uplo, Index n, const A& a, Index lda) {
  return norm(runtime, {.who = "lansy",
                        .norm = which,
                        .order = order,
                        .seen = Seen::symmetric,
                        .uplo = uplo,
                        .m = n,
                        .n = n,
                        .a = {Place::of(a), lda},
                        .dtype = dtype_of<std::remove_const_t<detail::element_t<A>>>()});
}
template <class A>
double lanhe(Runtime& runtime, Order order, Norm which, Uplo uplo, Index n, const A& a, Index lda) {
  return norm(runtime, {.who = "lanhe",
                        .norm = which,
                        .order = order,
                        .seen = Seen::hermitian,
                        .uplo = uplo,
                        .m = n,
                        .n = n,
                        .a = {Place::of(a), lda},
                        .dtype = dtype_of<std::remove_const_t<detail::element_t<A>>>()});
}
/// Of a square triangular one.
template <class A>
double lantr(Runtime& runtime, Order order, Norm which, Uplo uplo, Diagonal diagonal, Index n, const A& a, Index lda) {
  return norm(runtime, {.who = "lantr",
                        .norm = which,
                        .order = order,
                        .seen = Seen::triangular,
                        .uplo = uplo,
                        .diagonal = diagonal,
                        .m = n,
                        .n = n,
                        .a = {Place::of(a), lda},
                        .dtype = dtype_of<std::remove_const_t<detail::element_t<A>>>()});
}

}  // namespace flagstone::flash
