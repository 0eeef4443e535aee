#pragma once
// CBLAS's triangular solve and rank-k updates on disk pointers, on plain pointers, or on both.
#include "flagstone/flash/matrix_argument.hpp"

namespace flagstone::flash {

struct TrsmCall {
  Order order = Order::row_major;
  Side side = Side::left;
  Uplo uplo = Uplo::lower;
  Transpose transa = Transpose::none;
  Diagonal diagonal = Diagonal::stored;
  Index m = 0, n = 0;
  std::complex<double> alpha = 1.0;
  MatrixArgument a, b;
  Dtype dtype = Dtype::float64;
};
/// B := alpha op(A)⁻¹ B (left) or alpha B op(A)⁻¹ (right), in place; of A one triangle is read. PivotError with the
/// first zero on its diagonal. Cost: linalg::substitute's.
Statistics trsm(Runtime& runtime, const TrsmCall& call);

struct RankKCall {
  const char* who = "syrk";
  bool hermitian = false;
  Order order = Order::row_major;
  Uplo uplo = Uplo::lower;
  Transpose trans = Transpose::none;
  Index n = 0, k = 0;
  double alpha = 1, beta = 0;
  MatrixArgument a, c;
  Dtype dtype = Dtype::float64;
};
/// A triangle of C := alpha A Aᵀ + beta C, or alpha Aᵀ A + beta C (`hermitian`: Aᴴ for Aᵀ), in place; the other one is
/// neither read nor written. Cost: linalg::rank_k's.
Statistics rank_k(Runtime& runtime, const RankKCall& call);

// ---- CBLAS's arguments, after the runtime --------------------------------------------------------------------------
// Each pointer is a flash_ptr<T> or a T* of one T: float, double, or std::complex of those. In place, at any
// alignment; not atomic: after an error or a crash the result is part old, part new. ShapeError where A overlaps what
// is written.

template <class A, detail::WritablePointer B, class T = detail::element_t<B>>
requires(detail::PointerTo<A, T>) Statistics
    trsm(Runtime& runtime, Order order, Side side, Uplo uplo, Transpose transa, Diagonal diagonal, Index m, Index n,
         std::type_identity_t<T> alpha, const A& a, Index lda, const B& b, Index ldb) {
  return trsm(
      runtime,
      TrsmCall{
          order, side, uplo, transa, diagonal, m, n, alpha, {Place::of(a), lda}, {Place::of(b), ldb}, dtype_of<T>()});
}

/// C := alpha A Aᵀ + beta C, of real ones: complex symmetric products are gemm's.
template <class A, detail::WritablePointer C, class T = detail::element_t<C>>
requires(detail::PointerTo<A, T>&& std::is_floating_point_v<T>) Statistics
    syrk(Runtime& runtime, Order order, Uplo uplo, Transpose trans, Index n, Index k, std::type_identity_t<T> alpha,
         const A& a, Index lda, std::type_identity_t<T> beta, const C& c, Index ldc) {
  return rank_k(runtime, RankKCall{"syrk",
                                   false,
                                   order,
                                   uplo,
                                   trans,
                                   n,
                                   k,
                                   alpha,
                                   beta,
                                   {Place::of(a), lda},
                                   {Place::of(c), ldc},
                                   dtype_of<T>()});
}

/// C := alpha A Aᴴ + beta C, C Hermitian; alpha and beta are real.
template <class A, detail::WritablePointer C, class T = detail::element_t<C>>
requires(detail::PointerTo<A, T> && !std::is_floating_point_v<T>) Statistics
    herk(Runtime& runtime, Order order, Uplo uplo, Transpose trans, Index n, Index k, typename T::value_type alpha,
         const A& a, Index lda, typename T::value_type beta, const C& c, Index ldc) {
  return rank_k(runtime, RankKCall{"herk",
                                   true,
                                   order,
                                   uplo,
                                   trans,
                                   n,
                                   k,
                                   alpha,
                                   beta,
                                   {Place::of(a), lda},
                                   {Place::of(c), ldc},
                                   dtype_of<T>()});
}

}  // namespace flagstone::flash
