#include "flagstone/algorithms/spectral/ritz.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/lapack.hpp"

namespace flagstone::spectral {

void require_factored(int info) {
  if (info != 0) throw NumericalError("pca: a dense factorization failed; the matrix may hold NaN or Inf.");
}

std::vector<double> bordered(const std::vector<double>& before, Index p, Index width,
                             const std::vector<double>& columns) {
  const Index old = p - width;
  std::vector<double> h(static_cast<std::size_t>(p * p), 0.0);
  for (Index i = 0; i < old; ++i) std::copy_n(before.data() + i * old, old, h.data() + i * p);
  for (Index i = 0; i < p; ++i)
    for (Index j = 0; j < width; ++j) {
      const double value = columns[i * width + j];
      h[i * p + old + j] = value;
      if (i < old) h[(old + j) * p + i] = value;
    }
  for (Index i = old; i < p; ++i)  // symmetric but for rounding
    for (Index j = old; j < i; ++j) h[i * p + j] = h[j * p + i] = 0.5 * (h[i * p + j] + h[j * p + i]);
  return h;
}

void Ritz::solve(const std::vector<double>& h, Index p, const std::vector<double>& r, Index width, bool whole) {
  vectors_ = h;
  values_.resize(p);
  std::vector<double> ascending(p);
  require_factored(kernel::symmetric_eigen(p, vectors_.data(), ascending.data()));
  for (Index j = 0; j < p; ++j) values_[j] = ascending[p - 1 - j];
  for (Index j = 0; j < p / 2; ++j)
    std::swap_ranges(vectors_.begin() + j * p, vectors_.begin() + (j + 1) * p, vectors_.begin() + (p - 1 - j) * p);
  const double largest = std::max(values_[0], 0.0);
  if (!std::isfinite(largest)) throw NumericalError("pca: the products overflowed; scale the matrix down.");
  // Residual of pair j: |R y_last|, y_last the coordinates in the last block. In units of theta_1: squares of tiny
  // numbers would vanish.
  const double unit = largest > 0 ? largest : 1;
  residuals_.assign(p, 0.0);
  for (Index j = 0; j < p; ++j) {
    double sum = 0;
    for (Index i = 0; i < width; ++i) {
      double entry = 0;
      for (Index l = i; l < width; ++l) entry += r[i * width + l] / unit * vectors_[j * p + p - width + l];
      sum += entry * entry;
    }
    residuals_[j] = whole ? 0.0 : unit * std::sqrt(sum);
  }
}

std::vector<double> Ritz::columns(Index width) const {
  const Index p = size();
  std::vector<double> y(static_cast<std::size_t>(p * width));
  for (Index i = 0; i < p; ++i)
    for (Index j = 0; j < width; ++j) y[i * width + j] = vectors_[j * p + i];
  return y;
}

}  // namespace flagstone::spectral
