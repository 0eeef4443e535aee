#pragma once
// Elements that one superstep of each method moves and updates: formulas, no data.
#include "flagstone/algorithms/stencil/schedules/blocks.hpp"
#include "flagstone/algorithms/stencil/schedules/wavefront.hpp"

namespace flagstone::stencil {

/// Elements that one superstep of `depth` steps reads (of states and of coefficients), writes and updates.
struct Counts {
  double read = 0, given = 0, written = 0, updates = 0;
};

/// AL1 and, one step deep, the sweep: Π_d Σ_k |[k b - h (t' - t), (k + 1) b + h (t' - t)) ∩ [0, n)| at step t of t'; a
/// periodic axis is not clipped.
Counts block_counts(const Problem& problem, const Axes& block, Index depth);
/// AL2: what AL1 moves; updates Σ_runs Σ_t Π_d Σ_k Σ_x |[x₀ - h (σ - t), x₁ + h (σ - t)) ∩ [0, n)| over the cache
/// blocks x of each block's region after a run of σ steps.
Counts nested_counts(const Problem& problem, const BlockScheme& scheme, Index depth);
/// Elements of faces, each written once and read once: Σ_k Σ_t < t' |[(k + 1) b - h (t - 1) - 2 h, (k + 1) b - h (t -
/// 1)) ∩ [0, n)| times what a row of all planes has.
double wavefront_faces(const Problem& problem, const WavefrontScheme& scheme, Index depth);
Counts wavefront_counts(const Problem& problem, const WavefrontScheme& scheme, Index depth);

}  // namespace flagstone::stencil
