#include "flagstone/algorithms/stencil/schedules/nested.hpp"

#include <algorithm>
#include <utility>

#include "flagstone/algorithms/stencil/schedules/block_step.hpp"
#include "flagstone/algorithms/stencil/schedules/staged.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::stencil {
namespace {

Range3 grown_by(const Problem& problem, const Range3& range, Index steps) {
  return kernel::grown(range, Nest::steps_of(problem, steps));
}

/// The same of several fields: stage by stage, in two buffers of each.
void run_cache_block_of_fields(const Nest& nest, const Range3& own, Index done, Index steps,
                               std::span<const kernel::Points> now, std::span<const kernel::Points> then,
                               std::byte* memory) {
  const Problem& problem = nest.problem;
  const Axes later = Nest::steps_of(problem, nest.depth - done - steps);
  const auto grown = [&](const Axes& by) {
    Axes all = by;
    for (std::size_t d = 0; d < 3; ++d) all[d] += later[d];
    return kernel::intersect(kernel::grown(own, by), nest.grown(all));
  };
  const Range3 loaded = grown(Nest::steps_of(problem, steps));
  const BlockBuffer buffer{kernel::grown(loaded, problem.space.radius), problem.item()};
  std::vector<kernel::Points> here, next;
  for (std::size_t field = 0; field < now.size(); ++field) {
    here.push_back(buffer.points(memory)), next.push_back(buffer.points(memory + buffer.bytes()));
    memory += 2 * buffer.bytes();
    kernel::copy_points(now[field], here[field], loaded, problem.space.item);
  }
  const auto after = [&](Index t, std::span<const kernel::Points> before, std::span<const kernel::Points> made,
                         const Range3& computed) { nest.after(done + t, before, made, computed, own); };
  run_stages({problem, nest.first_step + done, steps, nest.open, grown, after, nest.coefficients}, here, next, memory);
  for (std::size_t field = 0; field < now.size(); ++field)
    kernel::copy_points(here[field], then[field], own, problem.space.item);
}

/// One cache block, so many steps on from step `done` of the superstep.
void run_cache_block(const Nest& nest, const Range3& own, Index done, Index steps, std::span<const kernel::Points> now,
                     std::span<const kernel::Points> then, std::byte* memory) {
  const Problem& problem = nest.problem;
  // What step t of this run computes here; of t = 0 what is copied out.
  const auto range = [&](Index t) {
    return kernel::intersect(grown_by(problem, own, steps - t), nest.range(done + t));
  };
  const BlockBuffer buffer{kernel::grown(range(0), problem.space.radius), problem.item()};
  kernel::Points here = buffer.points(memory), next = buffer.points(memory + buffer.bytes());
  kernel::copy_points(now[0], here, range(0), problem.space.item);
  if (problem.order() == 2) kernel::copy_points(now[1], next, range(1), problem.space.item);
  kernel::Space space = problem.space;
  for (Index t = 1; t <= steps; ++t) {
    space.step = nest.first_step + done + t - 1;
    kernel::fill_ghosts(space, here, range(t - 1), nest.open);
    step_on(problem, block_fields(here, next, next, nest.coefficients), range(t), 0, memory + 2 * buffer.bytes());
    nest.after(done + t, {&here, 1}, {&next, 1}, range(t), own);
    std::swap(here, next);
  }
  kernel::copy_points(here, then[0], own, problem.space.item);
  if (problem.order() == 2) kernel::copy_points(next, then[1], own, problem.space.item);
}

}  // namespace

Axes cache_block_on(const Problem& problem, const CacheBlocks& cache, const std::array<bool, 3>& open,
                    const Range3& range) {
  Axes block = cache.block;
  for (std::size_t d = 0; d < 3; ++d)
    if (block[d] < 1 || block[d] > range.extent(d) || (problem.space.periodic(d) && !open[d]))
      block[d] = std::max<Index>(1, range.extent(d));
  return block;
}

void run_nested(const Nest& nest, std::vector<kernel::Points>& now, std::vector<kernel::Points>& then,
                std::byte* memory) {
  const Supersteps runs(nest.depth, nest.cache.depth);
  Index done = 0;
  for (Index run = 0; run < runs.number(); ++run) {
    const Index steps = runs[run];
    const Range3 all = nest.range(done + steps);
    const Axes block = cache_block_on(nest.problem, nest.cache, nest.open, all);
    Axes at{}, grid;
    for (std::size_t d = 0; d < 3; ++d) grid[d] = ceil_div(all.extent(d), block[d]);
    do {
      Range3 own;
      for (std::size_t d = 0; d < 3; ++d) {
        own.first[d] = all.first[d] + at[d] * block[d];
        own.last[d] = std::min(all.last[d], own.first[d] + block[d]);
      }
      if (nest.problem.fields())
        run_cache_block_of_fields(nest, own, done, steps, now, then, memory);
      else
        run_cache_block(nest, own, done, steps, now, then, memory);
    } while (advance(at, Axes{}, grid));
    std::swap(now, then);
    done += steps;
  }
}

double nested_updates(const Problem& problem, const CacheBlocks& cache, Index depth, const std::array<bool, 3>& open,
                      const std::function<Range3(Index step)>& range) {
  const Supersteps runs(depth, cache.depth);
  double updates = 0;
  for (Index run = 0, done = 0; run < runs.number(); done += runs[run++]) {
    const Range3 all = range(done + runs[run]);
    const Axes block = cache_block_on(problem, cache, open, all);
    for (Index t = 1; t <= runs[run]; ++t) {
      const Range3 here = range(done + t);
      double each = 1;
      for (std::size_t d = 0; d < 3; ++d) {
        const Index by = problem.space.radius[d] * (runs[run] - t);
        double along = 0;
        for (Index x = all.first[d]; x < all.last[d]; x += block[d])
          along += static_cast<double>(std::min(here.last[d], std::min(all.last[d], x + block[d]) + by) -
                                       std::max(here.first[d], x - by));
        each *= along;
      }
      updates += each;
    }
  }
  return updates;
}

std::uint64_t nested_bytes(const Problem& problem, const CacheBlocks& cache, const std::array<bool, 3>& open,
                           const Range3& loaded) {
  const Axes block = cache_block_on(problem, cache, open, loaded);
  Range3 largest = grown_by(problem, {{0, 0, 0}, block}, cache.depth + 1);
  for (std::size_t d = 0; d < 3; ++d)  // never more than the block itself with its ghosts
    largest.last[d] = largest.first[d] + std::min(largest.extent(d), loaded.extent(d) + 2 * problem.space.radius[d]);
  const std::uint64_t fields = problem.fields() ? problem.order() : 1;
  return 2 * fields * BlockBuffer{largest, problem.item()}.bytes() + align_up(problem.kernel_scratch(), 64);
}

}  // namespace flagstone::stencil
