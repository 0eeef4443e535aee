#pragma once
// LAPACKE's factorizations and solves on disk pointers, on plain pointers, or on both.
#include "flagstone/flash/matrix_argument.hpp"

namespace flagstone::flash {

/// A of order n, and B with `nrhs` columns, where there is one.
struct SystemCall {
  Order order = Order::row_major;
  Index n = 0, nrhs = 0;
  MatrixArgument a, b;
  Dtype dtype = Dtype::float64;
};

/// A := L with L Lᴴ = A, or U with Uᴴ U = A, in the triangle that `uplo` names; the other one is not touched.
/// PivotError with the order of the leading minor that is not positive. Cost: linalg::cholesky's.
Statistics potrf(Runtime& runtime, Uplo uplo, const SystemCall& call);
/// B := A⁻¹ B with such a factor. Cost: linalg::substitute's, two sweeps.
Statistics potrs(Runtime& runtime, Uplo uplo, const SystemCall& call);
/// Both: A := its factor, B := A⁻¹ B.
Statistics posv(Runtime& runtime, Uplo uplo, const SystemCall& call);
/// A := L and U with P A = L U, LAPACK's partial pivoting. `ipiv`: n row numbers counted from 1, as LAPACK has them;
/// row i was exchanged with row ipiv[i]. A zero pivot stops nothing: getrs says where it is. Cost: linalg::lu's.
Statistics getrf(Runtime& runtime, const SystemCall& call, Index* ipiv);
/// The same of m x n, with min(m, n) row numbers.
Statistics getrf(Runtime& runtime, Index m, const SystemCall& call, Index* ipiv);
/// B := op(A)⁻¹ B with such a factor. PivotError with the first zero on U's diagonal. Cost: linalg::lu_solve's.
Statistics getrs(Runtime& runtime, Transpose trans, const SystemCall& call, const Index* ipiv);
/// Both: A := its factor, B := A⁻¹ B.
Statistics gesv(Runtime& runtime, const SystemCall& call, Index* ipiv);

/// A of m x n, B with `nrhs` columns and max(m, n) rows.
struct LeastSquaresCall {
  Order order = Order::row_major;
  Transpose trans = Transpose::none;
  Index m = 0, n = 0, nrhs = 0;
  MatrixArgument a, b;
  Dtype dtype = Dtype::float64;
};
/// B := X with the least ‖B - op(A) X‖ in the rows that op(A) has columns, below them what is left of Qᴴ B (its squares
/// sum up to the residuals'); where op(A) has more columns, the shortest X with op(A) X = B. Full rank alone:
/// PivotError with the first zero on R's diagonal. A is only read: reflectors, as many elements as A, and R lie in the
/// runtime's scratch. Cost: linalg::qr_factor's and apply_q's, and a triangular solve.
Statistics gels(Runtime& runtime, const LeastSquaresCall& call);

// ---- LAPACKE's arguments, after the runtime ------------------------------------------------------------------------
// Pointers as for gemm. In place, at any alignment; not atomic: after an error or a crash A and B are part old, part
// new. ShapeError where A and B overlap, before anything is touched.

namespace detail {
template <class A, class B>
SystemCall system(Order order, Index n, Index nrhs, const A& a, Index lda, const B& b, Index ldb) {
  return {order, n, nrhs, {Place::of(a), lda}, {Place::of(b), ldb}, dtype_of<std::remove_const_t<element_t<A>>>()};
}
}  // namespace detail

template <detail::WritablePointer A>
Statistics potrf(Runtime& runtime, Order order, Uplo uplo, Index n, const A& a, Index lda) {
  return potrf(runtime, uplo, detail::system(order, n, 0, a, lda, a, lda));
}
template <class A, detail::WritablePointer B>
requires(detail::PointerTo<A, detail::element_t<B>>) Statistics
    potrs(Runtime& runtime, Order order, Uplo uplo, Index n, Index nrhs, const A& a, Index lda, const B& b, Index ldb) {
  return potrs(runtime, uplo, detail::system(order, n, nrhs, a, lda, b, ldb));
}
template <detail::WritablePointer A, detail::WritablePointer B>
requires(detail::PointerTo<A, detail::element_t<B>>) Statistics
    posv(Runtime& runtime, Order order, Uplo uplo, Index n, Index nrhs, const A& a, Index lda, const B& b, Index ldb) {
  return posv(runtime, uplo, detail::system(order, n, nrhs, a, lda, b, ldb));
}
template <detail::WritablePointer A>
Statistics getrf(Runtime& runtime, Order order, Index n, const A& a, Index lda, Index* ipiv) {
  return getrf(runtime, detail::system(order, n, 0, a, lda, a, lda), ipiv);
}
template <detail::WritablePointer A>
Statistics getrf(Runtime& runtime, Order order, Index m, Index n, const A& a, Index lda, Index* ipiv) {
  return getrf(runtime, m, detail::system(order, n, 0, a, lda, a, lda), ipiv);
}
template <class A, detail::WritablePointer B>
requires(detail::PointerTo<A, detail::element_t<B>>) Statistics
    gels(Runtime& runtime, Order order, Transpose trans, Index m, Index n, Index nrhs, const A& a, Index lda,
         const B& b, Index ldb) {
  return gels(
      runtime,
      LeastSquaresCall{
          order, trans, m, n, nrhs, {Place::of(a), lda}, {Place::of(b), ldb}, dtype_of<detail::element_t<B>>()});
}
template <class A, detail::WritablePointer B>
requires(detail::PointerTo<A, detail::element_t<B>>) Statistics
    getrs(Runtime& runtime, Order order, Transpose trans, Index n, Index nrhs, const A& a, Index lda, const Index* ipiv,
          const B& b, Index ldb) {
  return getrs(runtime, trans, detail::system(order, n, nrhs, a, lda, b, ldb), ipiv);
}
template <detail::WritablePointer A, detail::WritablePointer B>
requires(detail::PointerTo<A, detail::element_t<B>>) Statistics
    gesv(Runtime& runtime, Order order, Index n, Index nrhs, const A& a, Index lda, Index* ipiv, const B& b,
         Index ldb) {
  return gesv(runtime, detail::system(order, n, nrhs, a, lda, b, ldb), ipiv);
}

}  // namespace flagstone::flash
