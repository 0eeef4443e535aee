#include "flagstone/algorithms/stencil/field/observers.hpp"

#include <string>

#include "flagstone/base/error.hpp"

namespace flagstone::stencil {

bool Observers::ends() {
  if (!problem_->reductions || !problem_->reductions->wish().decides() || depth_ == 0) return false;
  graph_.barrier();
  if (graph_.planning()) return false;
  if (const auto bad = problem_->reductions->first_bad()) {
    const Axes& n = problem_->space.shape;
    const Axes at{bad->at / (n[1] * n[2]), bad->at / n[2] % n[1], bad->at % n[2]};
    std::string place;
    for (const std::size_t d : problem_->axes) place += (place.empty() ? "" : ", ") + std::to_string(at[d]);
    throw NumericalError("stencil: step " + std::to_string(bad->step) + " makes NaN or Inf, first at (" + place +
                         "); take a shorter step in time, or look at the operands there.");
  }
  return problem_->reductions->met(first_step_ + 1, first_step_ + depth_);
}

}  // namespace flagstone::stencil
