#include "flagstone/kernel/factor/herk.hpp"

#include <algorithm>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/cblas.hpp"
#include "flagstone/kernel/dense/layout.hpp"

namespace flagstone::kernel {
namespace {

/// C and A as BLAS sees them, by columns, and op as A is taken then.
struct Views {
  ColumnView a, c;
  Op op;
  /// BLAS has A Aᴴ and Aᴴ A; Aᵀ conj(A) and conj(A) Aᵀ are those of a conjugated copy.
  bool copies = false;
};

Views views_of(const Tile& a, Op op, const Tile& c) {
  Views views;
  views.c = column_view("herk", c);
  views.op.conjugate = op.conjugate != views.c.turned;  // Cᵀ = conj(C)
  views.a = column_view("herk", a, op.transpose != views.op.conjugate);
  views.op.transpose = op.transpose != views.a.turned;
  views.copies = is_complex(c.dtype) && count(a.shape) > 0 && views.op.transpose != views.op.conjugate;
  return views;
}

template <class T>
void conjugated_copy(ColumnView& a, std::byte* scratch) {
  T* const to = reinterpret_cast<T*>(scratch);
  for (Index j = 0; j < a.cols; ++j)
    for (Index i = 0; i < a.rows; ++i) to[i + j * a.rows] = std::conj(a.as<T>()[i + j * a.ld]);
  a.data = scratch, a.ld = std::max(1, a.rows);
}

}  // namespace

std::size_t herk_scratch(const Tile& a, Op op, const Tile& c) {
  return views_of(a, op, c).copies ? static_cast<std::size_t>(count(a.shape)) * size_of(a.dtype) : 0;
}

void herk(Uplo uplo, double alpha, const Tile& a, Op op, double beta, const Tile& c, std::byte* scratch) {
  Views views = views_of(a, op, c);
  const int n = views.c.rows, k = views.op.transpose ? views.a.rows : views.a.cols;
  if (a.dtype != c.dtype || views.c.cols != n || a.shape[op.transpose] != n)
    throw ShapeError("herk: A is " + to_string(a.shape) + " " + std::string(name_of(a.dtype)) + " and C " +
                     to_string(c.shape) + " " + std::string(name_of(c.dtype)) +
                     "; a square C of A's dtype that conforms is needed.");
  if (n == 0) return;
  if (views.copies && scratch == nullptr) throw ShapeError("herk: these tiles need herk_scratch() bytes of scratch.");
  const auto half = (uplo == Uplo::lower) != views.c.turned ? CblasLower : CblasUpper;
  visit_blas_type(c.dtype, [&]<class T>(T) {
    const auto update = [&](auto* blas_update, auto factor, auto transposed) {
      using Real = decltype(factor);
      blas_update(CblasColMajor, half, views.op.transpose ? transposed : CblasNoTrans, n, k, factor, views.a.as<T>(),
                  views.a.ld, static_cast<Real>(beta), views.c.as<T>(), views.c.ld);
    };
    if constexpr (std::is_same_v<T, float>) {
      update(blas::ssyrk, static_cast<float>(alpha), CblasTrans);
    } else if constexpr (std::is_same_v<T, double>) {
      update(blas::dsyrk, alpha, CblasTrans);
    } else {
      if (views.copies) conjugated_copy<T>(views.a, scratch);
      if constexpr (std::is_same_v<T, std::complex<float>>)
        update(blas::cherk, static_cast<float>(alpha), CblasConjTrans);
      else
        update(blas::zherk, alpha, CblasConjTrans);
    }
  });
}

}  // namespace flagstone::kernel
