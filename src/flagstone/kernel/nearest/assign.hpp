#pragma once
// Of each point the nearest of k centres: one product with all of them, which is never stored; what it leaves open is
// decided in float64.
#include <cstdint>

#include "flagstone/kernel/nearest/points.hpp"

namespace flagstone::kernel {

/// Centres as a pass over points takes them. Memory of others.
struct Centres {
  Index k = 0, d = 0;
  const double* exact = nullptr;   // k x d
  const float* rounded = nullptr;  // k x d: exact - shift
  const float* half = nullptr;     // scores_width(k): ‖exact - shift‖² / 2, beyond k infinity
  const double* shift = nullptr;   // d
  double longest = 0;              // the largest ‖exact - shift‖
  bool unit = false;               // centres are unit vectors: what decides is the product with them, not the distance
};

/// k in whole steps of scores.
Index scores_width(Index k);
/// rounded, half := of the centres about a shift; returns the largest length. Cost: 2 k d.
double round_centres(const double* exact, Index k, Index d, const double* shift, float* rounded, float* half);

/// labels[i] := the centre nearest to point i, the lower one of two equally near; squares[i] := ‖scale x - c‖², by
/// differences. What float32 cannot tell apart is decided by those, so labels are those of float64. Returns how many
/// points were. `scores`: rows x scores_width(k) float32. Cost: 2 rows d k flops in float32.
Index assign(const Points& points, const Centres& centres, float* scores, std::int32_t* labels, double* squares);

}  // namespace flagstone::kernel
