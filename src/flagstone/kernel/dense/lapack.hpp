#pragma once
// The small dense factorizations that eigensolvers need, in float64. They return LAPACK's info: 0 is success.
#include <complex>
#include <cstddef>

#include "flagstone/base/dtype.hpp"

namespace flagstone::kernel {

/// Eigenpairs of the symmetric n x n matrix `a` (C order; the lower triangle is read): values ascending, and `a` is
/// overwritten with the eigenvectors, one per ROW. Flops: about 9 n³. Divide and conquer.
int symmetric_eigen(Index n, double* a, double* values);
/// Bytes that symmetric_eigen takes besides `a` and `values`.
std::size_t symmetric_eigen_bytes(Index n);

/// The same of a Hermitian matrix: the eigenvector of value j is ROW j (not its conjugate). Flops: about 36 n³.
int hermitian_eigen(Index n, std::complex<double>* a, double* values);
/// Bytes that hermitian_eigen takes besides `a` and `values`.
std::size_t hermitian_eigen_bytes(Index n);

/// w (n x b, C order, n >= b) is overwritten with orthonormal columns V, and r (b x b, C order) is upper triangular
/// with w = V r. Two rounds of Cholesky QR on columns scaled to length one (Fukaya, Nakatsukasa, Yanagisawa, Yamamoto
/// 2014), 4 n b² flops at the speed of a matrix product; where the columns are too dependent for that (condition above
/// 1e6), Householder: V is orthonormal for any w, of deficient rank too. Not for NaN.
int qr(Index n, Index b, double* w, double* r);
/// Bytes that qr takes besides w and r.
std::size_t qr_bytes(Index n, Index b);

/// a (n x n, C order, destroyed) = u diag(s) vt, s descending; u and vt n x n, C order.
int svd(Index n, double* a, double* s, double* u, double* vt);

}  // namespace flagstone::kernel
