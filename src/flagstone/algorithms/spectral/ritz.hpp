#pragma once
// Rayleigh-Ritz: what a basis knows of the eigenpairs of an operator.
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::spectral {

/// NumericalError where a dense factorization failed.
void require_factored(int info);

/// H, p x p, from the H before the last block and its columns QᵀG Q_last, p x width: symmetric, the last diagonal block
/// made so.
std::vector<double> bordered(const std::vector<double>& before, Index p, Index width,
                             const std::vector<double>& columns);

/// The eigenpairs of H = QᵀGQ, for an orthonormal basis Q of p columns.
class Ritz {
 public:
  /// From H, p x p, and the triangular factor R of the part of G Q_last outside the basis, width x width for the last
  /// block's width. `whole`: the basis spans everything, nothing is outside. NumericalError where H holds NaN or Inf.
  void solve(const std::vector<double>& h, Index p, const std::vector<double>& r, Index width, bool whole);

  Index size() const { return static_cast<Index>(values_.size()); }
  /// Descending.
  double value(Index j) const { return values_[j]; }
  /// |G v - theta v| of the pair j.
  double residual(Index j) const { return residuals_[j]; }
  /// Coordinates of the first `width` vectors in the basis: columns, p x width in C order.
  std::vector<double> columns(Index width) const;

 private:
  std::vector<double> values_, vectors_, residuals_;  // vectors: row j belongs to value j
};

}  // namespace flagstone::spectral
