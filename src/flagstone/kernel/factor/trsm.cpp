#include "flagstone/kernel/factor/trsm.hpp"

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/cblas.hpp"
#include "flagstone/kernel/dense/layout.hpp"

namespace flagstone::kernel {
namespace {

template <class T>
void conjugate(const ColumnView& view) {
  using Real = typename T::value_type;
  for (Index j = 0; j < view.cols; ++j) {
    Real* part = reinterpret_cast<Real*>(view.as<T>() + j * view.ld);
    for (Index i = 0; i < view.rows; ++i) part[2 * i + 1] = -part[2 * i + 1];
  }
}

}  // namespace

void trsm(Side side, Triangle how, std::complex<double> alpha, const Tile& a, const Tile& b) {
  const ColumnView triangle = column_view("trsm", a), x = column_view("trsm", b);
  const Index order = b.shape[side == Side::left ? 0 : 1];
  if (a.dtype != b.dtype || a.shape[0] != a.shape[1] || a.shape[0] != order)
    throw ShapeError("trsm: A is " + to_string(a.shape) + " " + std::string(name_of(a.dtype)) + " and B " +
                     to_string(b.shape) + " " + std::string(name_of(b.dtype)) +
                     "; a square A of B's dtype that conforms is needed.");
  if (x.rows == 0 || x.cols == 0) return;
  if (x.turned) side = flipped(side), how.op.transpose = !how.op.transpose;  // Xᵀ op(A)ᵀ = alpha Bᵀ
  if (triangle.turned) how.uplo = flipped(how.uplo), how.op.transpose = !how.op.transpose;
  const bool conjugated = how.op.conjugate && is_complex(a.dtype), around = conjugated && !how.op.transpose;
  const auto blas_side = side == Side::left ? CblasLeft : CblasRight;
  const auto uplo = how.uplo == Uplo::lower ? CblasLower : CblasUpper;
  const auto op = !how.op.transpose ? CblasNoTrans : conjugated ? CblasConjTrans : CblasTrans;
  const auto diagonal = how.unit ? CblasUnit : CblasNonUnit;
  visit_blas_type(a.dtype, [&]<class T>(T) {
    const T* const from = triangle.as<T>();
    T* const to = x.as<T>();
    const auto solve = [&](auto* blas_trsm, auto factor) {
      blas_trsm(CblasColMajor, blas_side, uplo, op, diagonal, x.rows, x.cols, factor, from, triangle.ld, to, x.ld);
    };
    if constexpr (std::is_same_v<T, float>) {
      solve(blas::strsm, static_cast<float>(alpha.real()));
    } else if constexpr (std::is_same_v<T, double>) {
      solve(blas::dtrsm, alpha.real());
    } else {
      const T factor(around ? std::conj(alpha) : alpha);
      if (around) conjugate<T>(x);  // conj(A)⁻¹ B = conj(A⁻¹ conj(B))
      if constexpr (std::is_same_v<T, std::complex<float>>)
        solve(blas::ctrsm, &factor);
      else
        solve(blas::ztrsm, &factor);
      if (around) conjugate<T>(x);
    }
  });
}

}  // namespace flagstone::kernel
