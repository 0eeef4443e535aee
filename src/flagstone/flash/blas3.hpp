#pragma once
// CBLAS's triangular solve, products with structure and rank-k updates on disk pointers, plain pointers, or both.
#include <optional>

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

/// B := alpha op(A) B (left) or alpha B op(A) (right), in place; of A one triangle is read. Cost:
/// linalg::triangular_product's.
Statistics trmm(Runtime& runtime, const TrsmCall& call);

struct RankKCall {
  const char* who = "syrk";
  bool hermitian = false;
  Order order = Order::row_major;
  Uplo uplo = Uplo::lower;
  Transpose trans = Transpose::none;
  Index n = 0, k = 0;
  std::complex<double> alpha = 1, beta = 0;
  MatrixArgument a, c;
  Dtype dtype = Dtype::float64;
  std::optional<MatrixArgument> b = {};
};
/// A triangle of C := alpha A Aᵀ + beta C, or alpha Aᵀ A + beta C (`hermitian`: Aᴴ for Aᵀ), in place; the other one is
/// neither read nor written. With `b` of alpha A Bᵀ + alpha B Aᵀ + beta C (alpha A Bᴴ + conj(alpha) B Aᴴ). Cost:
/// linalg::rank_k's.
Statistics rank_k(Runtime& runtime, const RankKCall& call);

struct SymmCall {
  const char* who = "symm";
  bool hermitian = false;
  Order order = Order::row_major;
  Side side = Side::left;
  Uplo uplo = Uplo::lower;
  Index m = 0, n = 0;
  std::complex<double> alpha = 1, beta = 0;
  MatrixArgument a, b, c;
  Dtype dtype = Dtype::float64;
};
/// C := alpha A B + beta C (left) or alpha B A + beta C (right), in place, A symmetric or Hermitian: one triangle of it
/// is read. B where it overlaps C is copied first. Cost: linalg::matmul's; tiles of A that lie beside the triangle are
/// read as their mirrors.
Statistics symm(Runtime& runtime, const SymmCall& call);

// ---- CBLAS's arguments, after the runtime --------------------------------------------------------------------------
// Each pointer is a flash_ptr<T> or a T* of one T: float, double, or std::complex of those. In place, at any
// alignment; not atomic: after an error or a crash the result is part old, part new. ShapeError where A overlaps what
// is written.

namespace detail {
template <class T, class A, class B>
TrsmCall triangular(Order order, Side side, Uplo uplo, Transpose transa, Diagonal diagonal, Index m, Index n,
                    std::type_identity_t<T> alpha, const A& a, Index lda, const B& b, Index ldb) {
  return {order, side, uplo, transa, diagonal, m, n, alpha, {Place::of(a), lda}, {Place::of(b), ldb}, dtype_of<T>()};
}

/// C := alpha A Aᵀ + beta C or, `hermitian`, with Aᴴ.
template <class T, class A, class C>
RankKCall updated(const char* who, bool hermitian, Order order, Uplo uplo, Transpose trans, Index n, Index k,
                  std::complex<double> alpha, const A& a, Index lda, std::complex<double> beta, const C& c, Index ldc) {
  return {who,          hermitian, order, uplo, trans, n, k, alpha, beta, {Place::of(a), lda}, {Place::of(c), ldc},
          dtype_of<T>()};
}

/// The same of two matrices.
template <class B>
RankKCall beside(RankKCall call, const B& b, Index ldb) {
  call.b = MatrixArgument{Place::of(b), ldb};
  return call;
}

template <class T, class A, class B, class C>
SymmCall symmetric(const char* who, bool hermitian, Order order, Side side, Uplo uplo, Index m, Index n, T alpha,
                   const A& a, Index lda, const B& b, Index ldb, T beta, const C& c, Index ldc) {
  return {who,
          hermitian,
          order,
          side,
          uplo,
          m,
          n,
          alpha,
          beta,
          {Place::of(a), lda},
          {Place::of(b), ldb},
          {Place::of(c), ldc},
          dtype_of<T>()};
}
}  // namespace detail

template <class A, detail::WritablePointer B, class T = detail::element_t<B>>
requires(detail::PointerTo<A, T>) Statistics
    trsm(Runtime& runtime, Order order, Side side, Uplo uplo, Transpose transa, Diagonal diagonal, Index m, Index n,
         std::type_identity_t<T> alpha, const A& a, Index lda, const B& b, Index ldb) {
  return trsm(runtime, detail::triangular<T>(order, side, uplo, transa, diagonal, m, n, alpha, a, lda, b, ldb));
}

/// As trsm; B := alpha op(A) B or alpha B op(A).
template <class A, detail::WritablePointer B, class T = detail::element_t<B>>
requires(detail::PointerTo<A, T>) Statistics
    trmm(Runtime& runtime, Order order, Side side, Uplo uplo, Transpose transa, Diagonal diagonal, Index m, Index n,
         std::type_identity_t<T> alpha, const A& a, Index lda, const B& b, Index ldb) {
  return trmm(runtime, detail::triangular<T>(order, side, uplo, transa, diagonal, m, n, alpha, a, lda, b, ldb));
}

/// C := alpha A Aᵀ + beta C.
template <class A, detail::WritablePointer C, class T = detail::element_t<C>>
requires(detail::PointerTo<A, T>) Statistics
    syrk(Runtime& runtime, Order order, Uplo uplo, Transpose trans, Index n, Index k, std::type_identity_t<T> alpha,
         const A& a, Index lda, std::type_identity_t<T> beta, const C& c, Index ldc) {
  return rank_k(runtime, detail::updated<T>("syrk", false, order, uplo, trans, n, k, alpha, a, lda, beta, c, ldc));
}

/// C := alpha A Aᴴ + beta C, C Hermitian; alpha and beta are real.
template <class A, detail::WritablePointer C, class T = detail::element_t<C>>
requires(detail::PointerTo<A, T> && !std::is_floating_point_v<T>) Statistics
    herk(Runtime& runtime, Order order, Uplo uplo, Transpose trans, Index n, Index k, typename T::value_type alpha,
         const A& a, Index lda, typename T::value_type beta, const C& c, Index ldc) {
  return rank_k(runtime, detail::updated<T>("herk", true, order, uplo, trans, n, k, alpha, a, lda, beta, c, ldc));
}

/// C := alpha A Bᵀ + alpha B Aᵀ + beta C.
template <class A, class B, detail::WritablePointer C, class T = detail::element_t<C>>
requires(detail::PointerTo<A, T>&& detail::PointerTo<B, T>) Statistics
    syr2k(Runtime& runtime, Order order, Uplo uplo, Transpose trans, Index n, Index k, std::type_identity_t<T> alpha,
          const A& a, Index lda, const B& b, Index ldb, std::type_identity_t<T> beta, const C& c, Index ldc) {
  return rank_k(
      runtime, detail::beside(detail::updated<T>("syr2k", false, order, uplo, trans, n, k, alpha, a, lda, beta, c, ldc),
                              b, ldb));
}

/// C := alpha A Bᴴ + conj(alpha) B Aᴴ + beta C, C Hermitian; beta is real.
template <class A, class B, detail::WritablePointer C, class T = detail::element_t<C>>
requires(detail::PointerTo<A, T>&& detail::PointerTo<B, T> && !std::is_floating_point_v<T>) Statistics
    her2k(Runtime& runtime, Order order, Uplo uplo, Transpose trans, Index n, Index k, std::type_identity_t<T> alpha,
          const A& a, Index lda, const B& b, Index ldb, typename T::value_type beta, const C& c, Index ldc) {
  return rank_k(
      runtime,
      detail::beside(detail::updated<T>("her2k", true, order, uplo, trans, n, k, alpha, a, lda, beta, c, ldc), b, ldb));
}

/// C := alpha A B + beta C or alpha B A + beta C, A symmetric.
template <class A, class B, detail::WritablePointer C, class T = detail::element_t<C>>
requires(detail::PointerTo<A, T>&& detail::PointerTo<B, T>) Statistics
    symm(Runtime& runtime, Order order, Side side, Uplo uplo, Index m, Index n, std::type_identity_t<T> alpha,
         const A& a, Index lda, const B& b, Index ldb, std::type_identity_t<T> beta, const C& c, Index ldc) {
  return symm(runtime,
              detail::symmetric<T>("symm", false, order, side, uplo, m, n, alpha, a, lda, b, ldb, beta, c, ldc));
}

/// The same, A Hermitian, of whose diagonal the real part counts.
template <class A, class B, detail::WritablePointer C, class T = detail::element_t<C>>
requires(detail::PointerTo<A, T>&& detail::PointerTo<B, T> && !std::is_floating_point_v<T>) Statistics
    hemm(Runtime& runtime, Order order, Side side, Uplo uplo, Index m, Index n, std::type_identity_t<T> alpha,
         const A& a, Index lda, const B& b, Index ldb, std::type_identity_t<T> beta, const C& c, Index ldc) {
  return symm(runtime,
              detail::symmetric<T>("hemm", true, order, side, uplo, m, n, alpha, a, lda, b, ldb, beta, c, ldc));
}

}  // namespace flagstone::flash
