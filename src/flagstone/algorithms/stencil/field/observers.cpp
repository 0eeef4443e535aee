#include "flagstone/algorithms/stencil/field/observers.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "flagstone/base/error.hpp"

namespace flagstone::stencil {
namespace {

/// NumericalError: a point is NaN or Inf; of the first step with one, in the first field that has one then.
void refuse_bad(const Problem& problem) {
  std::optional<StepReductions::Bad> first;
  std::string field;
  for (std::size_t i = 0; i < problem.reductions.size(); ++i) {
    const auto bad = problem.reductions[i] ? problem.reductions[i]->first_bad() : std::nullopt;
    if (!bad || (first && first->step <= bad->step)) continue;
    first = bad, field = problem.names.empty() ? "" : " of the field '" + problem.names[i] + "'";
  }
  if (!first) return;
  const Axes& n = problem.space.shape;
  const Axes at{first->at / (n[1] * n[2]), first->at / n[2] % n[1], first->at % n[2]};
  std::string place;
  for (const std::size_t d : problem.axes) place += (place.empty() ? "" : ", ") + std::to_string(at[d]);
  throw NumericalError("stencil: step " + std::to_string(first->step) + " makes NaN or Inf, first at (" + place + ")" +
                       field + "; take a shorter step in time, or look at the operands there.");
}

}  // namespace

bool Observers::ends() {
  const auto decides = [](const auto& each) { return each && each->wish().decides(); };
  if (depth_ == 0 || std::ranges::none_of(problem_->reductions, decides)) return false;
  graph_.barrier();
  if (graph_.planning()) return false;
  refuse_bad(*problem_);
  return std::ranges::any_of(
      problem_->reductions, [&](const auto& each) { return each && each->met(first_step_ + 1, first_step_ + depth_); });
}

}  // namespace flagstone::stencil
