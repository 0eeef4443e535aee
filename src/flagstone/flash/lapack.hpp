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
/// B := op(A)⁻¹ B with such a factor. PivotError with the first zero on U's diagonal. Cost: linalg::lu_solve's.
Statistics getrs(Runtime& runtime, Transpose trans, const SystemCall& call, const Index* ipiv);
/// Both: A := its factor, B := A⁻¹ B.
Statistics gesv(Runtime& runtime, const SystemCall& call, Index* ipiv);

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
