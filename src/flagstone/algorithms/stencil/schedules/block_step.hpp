#pragma once
// One step on a block in memory: its buffers, and the kernel on its planes, strip by strip.
#include <functional>
#include <span>

#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

/// Memory that holds a range; rows begin on cache lines, 64 bytes more than whole ones: rows of 4096 bytes would share
/// one set of the first-level cache.
struct BlockBuffer {
  Range3 range;
  Index item = 1;
  Index pitch() const;
  std::uint64_t bytes() const;
  kernel::Points points(std::byte* data) const;
};

/// What a step reads and makes: `from` tells where an element of the field lies, of planes beyond edges too.
struct BlockFields {
  std::function<const std::byte*(Index plane, Index row, Index column)> from;
  Index pitch = 0;  // of its rows
  kernel::Points to, before;
  std::span<const kernel::Points> coefficients;
};
/// Of a block that lies in one piece, ghosts around it.
BlockFields block_fields(const kernel::Points& from, const kernel::Points& to, const kernel::Points& before,
                         std::span<const kernel::Points> coefficients);

/// to := kernel(from) on `range`, plane after plane of `rows` rows at a time (0: all of them), so that 2 radius + 1
/// planes of a strip stay in the cache. `scratch`: the kernel's.
void step_on(const Problem& problem, const BlockFields& fields, const Range3& range, Index rows, std::byte* scratch);

/// Rows of a strip whose planes (neighbours, result, step before, coefficients) take so many bytes of cache.
Index rows_in_cache(const Problem& problem, Index columns, std::uint64_t bytes);

}  // namespace flagstone::stencil
