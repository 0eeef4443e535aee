#include "flagstone/algorithms/stencil/field/work.hpp"

namespace flagstone::stencil {
namespace {

void run_work(const Call& call, std::span<const Tile> tiles) { call.value_as<StencilWork>().run(tiles); }

const bool entered =
    host_kernels().enter(Kernel::stencil_block, run_work) && host_kernels().enter(Kernel::stencil_copy, run_work);

}  // namespace

Call call_of(const Problem& problem, std::shared_ptr<const StencilWork> work, double flops, Kernel kernel) {
  Call call(kernel, problem.dtype, {});
  call.flops = flops;
  call.value = std::move(work);
  return call;
}

}  // namespace flagstone::stencil
