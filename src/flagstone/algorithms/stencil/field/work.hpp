#pragma once
// Tasks of schedules, which the graph knows as one kernel.
#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

/// What tasks of the room's schedules do; the graph knows two kernels for all of them: what computes, what copies.
struct StencilWork : CallValue {
  virtual void run(std::span<const Tile> tiles) const = 0;
};
/// The task's one call.
Call call_of(const Problem& problem, std::shared_ptr<const StencilWork> work, double flops,
             Kernel kernel = Kernel::stencil_block);

}  // namespace flagstone::stencil
