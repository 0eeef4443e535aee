#include "flagstone/algorithms/stencil/schedules/staged.hpp"

#include <utility>

#include "flagstone/algorithms/stencil/field/field_stage.hpp"

namespace flagstone::stencil {

void run_stages(const StagedBlock& block, std::vector<kernel::Points>& now, std::vector<kernel::Points>& then,
                std::byte* scratch) {
  const Problem& problem = block.problem;
  Axes left;  // what stages and steps to come reach
  for (std::size_t d = 0; d < 3; ++d) left[d] = problem.space.radius[d] * block.depth;
  Range3 valid = block.grown(left);
  for (Index t = 1; t <= block.depth; ++t) {
    for (const auto& stage : problem.stages) {
      kernel::Space space = problem.space;
      space.radius = stage->radius(), space.step = block.first_step + t - 1;
      for (const kernel::Points& field : now) kernel::fill_ghosts(space, field, valid, block.open);
      for (std::size_t d = 0; d < 3; ++d) left[d] -= stage->radius()[d];
      valid = block.grown(left);
      const auto place = [&](std::size_t field, const Axes& at) { return now[field].at(at[0], at[1], at[2]); };
      stage->run(valid, place, then, block.coefficients, scratch);
      for (const auto& [field, value] : stage->replaced()) std::swap(now[field], then[field]);
    }
    block.after(t, then, now, valid);
  }
}

}  // namespace flagstone::stencil
