#pragma once
// CBLAS's gemm on disk pointers, on plain pointers, or on both.
#include "flagstone/flash/flash_ptr.hpp"

namespace flagstone::flash {

// CBLAS's values, so that its constants can be cast to these.
enum class Order { row_major = 101, column_major = 102 };
enum class Transpose { none = 111, plain = 112, conjugate = 113 };

/// Where a matrix argument begins: on disk or in memory.
struct Place {
  std::shared_ptr<FlashFile> file;  // null: memory
  std::uint64_t offset = 0;         // on disk
  std::byte* memory = nullptr;

  template <class T>
  static Place of(const flash_ptr<T>& p) {
    return {p.file(), p.offset(), nullptr};
  }
  template <class T>
  static Place of(T* p) {
    return {nullptr, 0, reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(p))};
  }
};

struct MatrixArgument {
  Place place;
  Index leading = 0;
};

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

namespace detail {
template <class P>
struct element;
template <class T>
struct element<flash_ptr<T>> {
  using type = T;
};
template <class T>
struct element<T*> {
  using type = T;
};
template <class P>
using element_t = typename element<std::decay_t<P>>::type;
}  // namespace detail

/// CBLAS's arguments, after the runtime that it runs on. A, B and C are each a flash_ptr<T> or a T* of one T: float,
/// double, or std::complex of those.
template <class A, class B, class C, class T = detail::element_t<C>>
requires(!std::is_const_v<T> && std::is_same_v<T, std::remove_const_t<detail::element_t<A>>> &&
         std::is_same_v<T, std::remove_const_t<detail::element_t<B>>>) Statistics
    gemm(Runtime& runtime, Order order, Transpose transa, Transpose transb, Index m, Index n, Index k,
         std::type_identity_t<T> alpha, const A& a, Index lda, const B& b, Index ldb, std::type_identity_t<T> beta,
         const C& c, Index ldc) {
  const GemmCall call{
      order,        transa, transb, m, n, k, alpha, beta, {Place::of(a), lda}, {Place::of(b), ldb}, {Place::of(c), ldc},
      dtype_of<T>()};
  return gemm(runtime, call);
}

}  // namespace flagstone::flash
