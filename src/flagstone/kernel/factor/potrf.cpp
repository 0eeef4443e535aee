#include "flagstone/kernel/factor/potrf.hpp"

#include <cmath>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/cblas.hpp"
#include "flagstone/kernel/dense/layout.hpp"

namespace flagstone::kernel {

int potrf(Uplo uplo, const Tile& a) {
  const ColumnView view = column_view("potrf", a);
  if (view.rows != view.cols)
    throw ShapeError("potrf: the tile is " + to_string(a.shape) + "; a square one is needed.");
  // By columns a tile of rows is Aᵀ = conj(A), whose upper factor is Lᵀ: in place it is L again.
  const char half = (uplo == Uplo::lower) != view.turned ? 'L' : 'U';
  const int n = view.rows;
  return visit_blas_type(a.dtype, [&]<class T>(T) {
    T* const data = view.as<T>();
    int info = 0;
    if constexpr (std::is_same_v<T, float>)
      info = blas::spotrf_work(LAPACK_COL_MAJOR, half, n, data, view.ld);
    else if constexpr (std::is_same_v<T, double>)
      info = blas::dpotrf_work(LAPACK_COL_MAJOR, half, n, data, view.ld);
    else if constexpr (std::is_same_v<T, std::complex<float>>)
      info = blas::cpotrf_work(LAPACK_COL_MAJOR, half, n, data, view.ld);
    else
      info = blas::zpotrf_work(LAPACK_COL_MAJOR, half, n, data, view.ld);
    if (info < 0) throw Error("potrf: LAPACK refused argument " + std::to_string(-info) + ".");
    // OpenBLAS compares a pivot with zero, which NaN passes.
    const int sure = info > 0 ? info - 1 : n;
    for (int i = 0; i < sure; ++i) {
      const auto pivot = std::real(data[i + static_cast<Index>(i) * view.ld]);
      if (!(pivot > 0) || !std::isfinite(pivot)) return i + 1;
    }
    return info;
  });
}

}  // namespace flagstone::kernel
