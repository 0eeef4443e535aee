#pragma once
// CBLAS's gemm on disk pointers, on plain pointers, or on both.
#include "flagstone/flash/matrix_argument.hpp"

namespace flagstone::flash {

struct GemmCall {
  Order order = Order::row_major;
  Transpose transa = Transpose::none, transb = Transpose::none;
  Index m = 0, n = 0, k = 0;
  std::complex<double> alpha = 1.0, beta = 0.0;
  MatrixArgument a, b, c;
  Dtype dtype = Dtype::float64;
};

/// C := alpha op(A) op(B) + beta C, in place. The function behind gemm(); also runs where C overlaps A or B: such an
/// operand is copied to the runtime's scratch first. ShapeError, StorageError, BudgetError before C is touched.
/// Cost: linalg::matmul's; a copied operand is read and written once more. Not atomic: after an error or a crash C is
/// part old, part new. Bytes of C's file outside C keep their values whatever the alignment.
Statistics gemm(Runtime& runtime, const GemmCall& call);

/// CBLAS's arguments, after the runtime that it runs on. A, B and C are each a flash_ptr<T> or a T* of one T: float,
/// double, or std::complex of those.
template <class A, class B, detail::WritablePointer C, class T = detail::element_t<C>>
requires(detail::PointerTo<A, T>&& detail::PointerTo<B, T>) Statistics
    gemm(Runtime& runtime, Order order, Transpose transa, Transpose transb, Index m, Index n, Index k,
         std::type_identity_t<T> alpha, const A& a, Index lda, const B& b, Index ldb, std::type_identity_t<T> beta,
         const C& c, Index ldc) {
  const GemmCall call{
      order,        transa, transb, m, n, k, alpha, beta, {Place::of(a), lda}, {Place::of(b), ldb}, {Place::of(c), ldc},
      dtype_of<T>()};
  return gemm(runtime, call);
}

}  // namespace flagstone::flash
