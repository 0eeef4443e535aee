// The loop itself: what a dead process did first, then the scheme's schedule.
#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/field/states.hpp"
#include "flagstone/algorithms/stencil/mesh_run.hpp"
#include "flagstone/algorithms/stencil/scheme.hpp"
#include "flagstone/algorithms/stencil/skewed/tile_memory.hpp"

namespace flagstone::stencil {

Scheme run_scheme(Graph& graph, std::shared_ptr<const Problem> problem, Scheme scheme) {
  if (scheme.method == Method::al3) {
    const Axes unit = result_units(*problem);
    const Skewed done = run_skewed(graph, problem, scheme.skewed, unit);
    scheme.read = done.moved.read + done.moved.given, scheme.written = done.moved.written;
    scheme.updates = done.moved.updates, scheme.steps = done.steps;
    scheme.scratch_bytes = done.scratch + saved_bytes(*problem);
    return scheme;
  }
  scheme.steps = scheme.method == Method::al4 ? run_wavefront(graph, std::move(problem), scheme.wavefront)
                                              : run_blocks(graph, std::move(problem), scheme.blocks);
  return scheme;
}

Scheme run(Graph& graph, std::shared_ptr<const Problem> problem, const Wishes& wishes) {
  if (problem->space.whole().count() == 0) return {.steps = problem->steps};
  const bool alone = wishes.mesh == std::array<Index, 2>{1, 1};
  if (!graph.planning() && problem->saved) {
    auto begun = std::make_shared<Problem>(*problem);
    begun->first = load_epoch(*problem).step;
    problem = std::move(begun);
  }
  Charge charge, edges;
  if (const std::uint64_t bytes = problem->edge_bytes()) edges = graph.charge(bytes);
  std::uint64_t told = 0;
  for (const auto& each : problem->reductions)
    if (each) told += StepReductions::bytes(problem->steps, each->wish());
  if (told > 0) charge = graph.charge(told);
  if (!alone && problem->left() > 0) return run_mesh(graph, std::move(problem), wishes);
  const Scheme scheme = choose(*problem, wishes, graph.budget(), graph.workers());
  return run_scheme(graph, std::move(problem), scheme);
}

}  // namespace flagstone::stencil
