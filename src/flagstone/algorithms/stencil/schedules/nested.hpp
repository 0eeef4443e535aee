#pragma once
// AL2's second tier: a block in memory is stepped on by cache blocks, several steps at a time.
#include <functional>
#include <span>
#include <vector>

#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

/// Cache blocks of a block in memory, and the most steps that each goes on at once; no steps: there are none.
struct CacheBlocks {
  Axes block{};
  Index depth = 0;
};

/// A block in memory, and how its superstep goes.
struct Nest {
  const Problem& problem;
  CacheBlocks cache;
  Index first_step = 0, depth = 0;
  std::array<bool, 3> open{};                   // periodic axes that are cut: ghosts are the field itself
  std::function<Range3(const Axes& by)> grown;  // the block's core by so many points, clipped where the field ends
  /// After a step: all states (of order 2 one, of several fields each) before it and after it.
  std::function<void(Index step, std::span<const kernel::Points> before, std::span<const kernel::Points> made,
                     const Range3& computed, const Range3& own)>
      after;
  std::span<const kernel::Points> coefficients;

  /// What each step computes; of step 0 what is loaded.
  Range3 range(Index step) const { return grown(steps_of(problem, depth - step)); }
  /// Points that so many steps reach.
  static Axes steps_of(const Problem& problem, Index steps) {
    Axes by = problem.space.radius;
    for (Index& each : by) each *= steps;
    return by;
  }
};

/// Edges of a cache block on a range: that of a periodic axis that is not cut is whole.
Axes cache_block_on(const Problem& problem, const CacheBlocks& cache, const std::array<bool, 3>& open,
                    const Range3& range);

/// All steps, in balanced runs of `cache.depth` at most. After s steps the block is valid on range(s); that is tiled by
/// cache blocks, each of which is copied out with a halo of radius × the run's steps, stepped on alone, copied back.
/// `now`, `then`: for each state (of order 2 the step before is the second) a buffer; the result is in `now`. Updates:
/// nested_updates(). `memory`: nested_bytes().
void run_nested(const Nest& nest, std::vector<kernel::Points>& now, std::vector<kernel::Points>& then,
                std::byte* memory);
/// What that updates: as many points as it computes.
double nested_updates(const Problem& problem, const CacheBlocks& cache, Index depth, const std::array<bool, 3>& open,
                      const std::function<Range3(Index step)>& range);
/// Two cache blocks with halos (of several fields two of each) and the kernel's scratch.
std::uint64_t nested_bytes(const Problem& problem, const CacheBlocks& cache, const std::array<bool, 3>& open,
                           const Range3& loaded);

}  // namespace flagstone::stencil
