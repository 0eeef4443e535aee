#pragma once
// The largest eigenpairs of a symmetric positive semidefinite matrix that can only be applied to blocks of vectors.
#include <cstdint>
#include <vector>

#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/algorithms/spectral/krylov_model.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::spectral {

struct KrylovOptions {
  Index k = 0;        // wanted eigenpairs
  Index block = 0;    // columns of one application, at least min(k, n)
  double tol = 1e-5;  // error of sqrt(eigenvalue) relative to the largest one's
  std::uint64_t seed = 0;
  Dtype dtype = Dtype::float64;  // precision of the products to begin with
  int steps = 0;                 // applications that krylov_steps() expects: a planned run does so many
  Stages* stages = nullptr;      // where the basis is saved between two applications, and taken from
};

/// Whether products of the order of `square`, a sum of squares of X, keep float32's precision: 2^-126 is its least
/// normal number, and a term may be far smaller than the sum.
inline bool in_range_of_float32(double square) { return square >= 1e-22 && square <= 1e30; }

struct KrylovResult {
  Array vectors;               // n x k float64, orthonormal columns
  std::vector<double> values;  // k, descending
  int applications = 0;
  Dtype dtype = Dtype::float64;  // precision of the products in the end
  double estimate = 0;           // of the error that tol bounds
};

/// As a stage that is done (Stages::once).
inline void list_parts(StateParts& parts, KrylovResult& result) {
  parts.array("vectors", result.vectors);
  parts.values("values", result.values);
  parts.value("applications", result.applications);
  parts.value("dtype", result.dtype);
  parts.value("estimate", result.estimate);
}

/// Randomized block Krylov (Musco & Musco 2015) as block Lanczos with full reorthogonalisation, done twice: after q
/// applications the basis Q spans [V, GV, ..., G^(q-1)V] and H = QᵀGQ is known, so Rayleigh-Ritz costs no application.
/// It stops when the Ritz residuals r_j (known from the last block's R) bound the error of every wanted value:
/// lambda_j - theta_j <= min(r_j, r_j² / (theta_j - theta_(b+1))), scaled by how far this bound was off one application
/// ago. When the basis is full it is compressed to its best Ritz vectors (thick restart). Products in float32 are given
/// up for float64 when X's squares are out of its range, or when a wanted sigma turns out so small that their rounding,
/// eps sigma_1² / (2 sigma_k), would show. Cost of application q: that of G, and 10 n b² q flops on the calling thread.
/// Holds n b (steps + 4) float64. ConvergenceError after krylov_most_steps applications.
KrylovResult block_krylov(Graph& graph, const Operator& op, const KrylovOptions& options);
inline constexpr int krylov_most_steps = 100;

}  // namespace flagstone::spectral
