#pragma once
// When a block Krylov iteration may stop.
#include <vector>

#include "flagstone/algorithms/spectral/ritz.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::spectral {

/// Bounds the errors of sqrt(lambda_j), relative to the largest, by the Ritz residuals r_j: lambda_j - theta_j <=
/// min(r_j, r_j² / (theta_j - theta_(b+1))), scaled by how far this was off one application ago.
class ErrorBound {
 public:
  /// After an application: the first k values of a basis of `blocks` blocks of `block` columns. The worst of their
  /// residuals.
  double update(const Ritz& ritz, Index k, Index block, int blocks);
  double estimate() const { return estimate_; }
  /// What is wanted is known exactly.
  void exact() { estimate_ = 0; }
  void list_parts(StateParts& parts);

 private:
  double safety(double gain, int blocks) const;

  std::vector<double> before_;  // the wanted values one application ago
  double bound_before_ = 0, estimate_ = 0;
};

}  // namespace flagstone::spectral
