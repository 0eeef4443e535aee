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

Range3 whole_range(const Window& window, const Range3& range) {
  Range3 moved = range;
  for (std::size_t d = 0; d < 3; ++d) moved.first[d] += window.origin[d], moved.last[d] += window.origin[d];
  return kernel::intersect(moved, window.core);
}

void Observed::see(Index step, std::span<const kernel::Points> from, std::span<const kernel::Points> to, Range3 range,
                   std::span<const Tile> tiles) const {
  if (pieces.empty() && problem->reductions.empty()) return;
  std::vector<kernel::Points> before(from.begin(), from.end()), after(to.begin(), to.end());
  if (problem->window) {
    range = whole_range(*problem->window, range);
    for (std::vector<kernel::Points>* points : {&before, &after})
      for (kernel::Points& each : *points)
        for (std::size_t d = 0; d < 3; ++d) each.first[d] += problem->window->origin[d];
  }
  for (const SnapshotPiece& piece : pieces)
    if (piece.step == step) piece.copy(after[piece.snapshot->field], range, tiles[piece.access], problem->space.item);
  if (range.empty()) return;
  for (std::size_t field = 0; field < problem->reductions.size(); ++field)
    if (problem->reductions[field]) problem->reductions[field]->add(step, before[field], after[field], range);
}

bool Observers::ends() {
  const auto decides = [](const auto& each) { return each && each->wish().decides(); };
  if (problem_->window || depth_ == 0 || std::ranges::none_of(problem_->reductions, decides)) return false;
  graph_.barrier();
  if (graph_.planning()) return false;
  refuse_bad(*problem_);
  return std::ranges::any_of(
      problem_->reductions, [&](const auto& each) { return each && each->met(first_step_ + 1, first_step_ + depth_); });
}

}  // namespace flagstone::stencil
