#include "flagstone/kernel/dense/lapack.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/dense/cblas.hpp"

namespace flagstone::kernel {
namespace {

// LAPACK reads columns: a C-order matrix is its transpose, so "lower, C order" is "upper" here, and nothing is copied.
constexpr int columns = LAPACK_COL_MAJOR;

/// One round of w := w r⁻¹ with wᵀw = rᵀr. False (w untouched) where the scaled columns are too dependent.
bool cholesky_round(Index n, Index b, double* w, double* r, double least_pivot) {
  const auto in = static_cast<int>(n), ib = static_cast<int>(b);
  blas::dsyrk(CblasRowMajor, CblasLower, CblasTrans, ib, in, 1.0, w, ib, 0.0, r, ib);
  std::vector<double> norm(b);
  for (Index j = 0; j < b; ++j) {
    norm[j] = std::sqrt(r[j * b + j]);
    if (!(norm[j] > 0) || !std::isfinite(norm[j])) return false;
  }
  for (Index i = 0; i < b; ++i)
    for (Index j = 0; j <= i; ++j) r[i * b + j] /= norm[i] * norm[j];
  if (blas::dpotrf(columns, 'U', ib, r, ib) != 0) return false;
  for (Index j = 0; j < b; ++j)
    if (!(r[j * b + j] > least_pivot)) return false;
  for (Index i = 0; i < b; ++i)  // back to the unscaled factor: r = lᵀ with l lower
    for (Index j = 0; j <= i; ++j) r[i * b + j] *= norm[i];
  blas::dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, in, ib, 1.0, r, ib, w, ib);
  for (Index i = 0; i < b; ++i)
    for (Index j = 0; j < i; ++j) r[j * b + i] = r[i * b + j], r[i * b + j] = 0;
  return true;
}

/// r := second first (both upper triangular).
void multiply_upper(Index b, const double* second, double* r) {
  std::vector<double> product(static_cast<std::size_t>(b * b), 0.0);
  for (Index i = 0; i < b; ++i)
    for (Index k = i; k < b; ++k)
      for (Index j = k; j < b; ++j) product[i * b + j] += second[i * b + k] * r[k * b + j];
  std::copy(product.begin(), product.end(), r);
}

/// wᵀ = l q by Householder: w in C order is wᵀ in LAPACK's.
int householder(Index n, Index b, double* w, double* r) {
  const auto in = static_cast<int>(n), ib = static_cast<int>(b);
  std::vector<double> tau(b), work(static_cast<std::size_t>(b) * 64);
  const auto size = static_cast<int>(work.size());
  int info = blas::dgelqf_work(columns, ib, in, w, ib, tau.data(), work.data(), size);
  if (info != 0) return info;
  for (Index i = 0; i < b; ++i)
    for (Index j = 0; j < b; ++j) r[i * b + j] = j >= i ? w[i * b + j] : 0.0;
  return blas::dorglq_work(columns, ib, in, ib, w, ib, tau.data(), work.data(), size);
}

}  // namespace

int symmetric_eigen(Index n, double* a, double* values) {
  if (n == 0) return 0;
  const auto in = static_cast<int>(n);
  const std::size_t numbers = static_cast<std::size_t>(1 + 6 * n + 2 * n * n);
  const Buffer work(8 * numbers);  // not from malloc, which would hold some MiB of it after its charge has ended
  std::vector<int> iwork(static_cast<std::size_t>(3 + 5 * n));
  return blas::dsyevd_work(columns, 'V', 'U', in, a, in, values, reinterpret_cast<double*>(work.data()),
                           static_cast<int>(numbers), iwork.data(), static_cast<int>(iwork.size()));
}

std::size_t symmetric_eigen_bytes(Index n) {
  return static_cast<std::size_t>(8 * (1 + 6 * n + 2 * n * n) + 4 * (3 + 5 * n));
}

int hermitian_eigen(Index n, std::complex<double>* a, double* values) {
  if (n == 0) return 0;
  const auto in = static_cast<int>(n);
  const auto numbers = static_cast<std::size_t>(2 * n + n * n), reals = static_cast<std::size_t>(1 + 5 * n + 2 * n * n);
  const Buffer work(16 * numbers), real_work(8 * reals);
  std::vector<int> iwork(static_cast<std::size_t>(3 + 5 * n));
  const int info =
      blas::zheevd_work(columns, 'V', 'U', in, a, in, values, reinterpret_cast<std::complex<double>*>(work.data()),
                        static_cast<int>(numbers), reinterpret_cast<double*>(real_work.data()), static_cast<int>(reals),
                        iwork.data(), static_cast<int>(iwork.size()));
  for (Index i = 0; i < n * n; ++i) a[i] = std::conj(a[i]);  // LAPACK saw the transpose, which is the conjugate
  return info;
}

std::size_t hermitian_eigen_bytes(Index n) {
  return static_cast<std::size_t>(16 * (2 * n + n * n) + 8 * (1 + 5 * n + 2 * n * n) + 4 * (3 + 5 * n));
}

int qr(Index n, Index b, double* w, double* r) {
  if (b == 0) return 0;
  std::vector<double> again(static_cast<std::size_t>(b * b));
  // The first round leaves an error of about eps / pivot²; the second removes it.
  if (!cholesky_round(n, b, w, r, 1e-6)) return householder(n, b, w, r);
  if (!cholesky_round(n, b, w, again.data(), 0.1)) {
    const int info = householder(n, b, w, again.data());
    if (info != 0) return info;
  }
  multiply_upper(b, again.data(), r);
  return 0;
}

std::size_t qr_bytes(Index, Index b) { return static_cast<std::size_t>(8 * b * (2 * b + 66)); }

int svd(Index n, double* a, double* s, double* u, double* vt) {
  if (n == 0) return 0;
  const auto in = static_cast<int>(n);
  // aᵀ = vtᵀ diag(s) uᵀ: what LAPACK calls u is our vt.
  return blas::dgesdd(columns, 'A', in, in, a, in, s, vt, in, u, in);
}

}  // namespace flagstone::kernel
