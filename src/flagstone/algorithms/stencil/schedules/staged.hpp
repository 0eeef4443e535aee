#pragma once
// Steps of several fields on a block in memory, stage by stage.
#include <functional>
#include <span>
#include <vector>

#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

/// A block of all fields, and how its superstep goes.
struct StagedBlock {
  const Problem& problem;
  Index first_step = 0, depth = 0;
  std::array<bool, 3> open{};  // periodic axes that are cut
  /// The block's core grown by so many points along each axis, clipped where the field ends.
  std::function<Range3(const Axes& by)> grown;
  /// After a step: all fields, before it too (of a field that one stage replaces).
  std::function<void(Index step, std::span<const kernel::Points> before, std::span<const kernel::Points> made,
                     const Range3& computed)>
      after;
  std::span<const kernel::Points> coefficients;
};

/// A step is its stages one after the other; each is computed as far beyond the core as the stages and steps to come
/// reach, and replaces its fields when all of it is computed. `now` and `then`: a buffer a field each; the result is in
/// `now`. Updates of a stage: those of a step of al1 and what its later stages reach beyond.
void run_stages(const StagedBlock& block, std::vector<kernel::Points>& now, std::vector<kernel::Points>& then,
                std::byte* scratch);

}  // namespace flagstone::stencil
