#include "flagstone/algorithms/centres/stored_kmeans.hpp"

#include "flagstone/algorithms/centres/stored_lloyd.hpp"
#include "flagstone/algorithms/centres/stored_seeding.hpp"
#include "flagstone/algorithms/cluster/dense_points.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::centres {

using namespace cluster;

namespace {

void fill(const Progress& progress, KMeansResult& result) {
  result.iterations = progress.iteration, result.converged = progress.converged;
  result.weights = progress.weights, result.inertia = progress.inertia, result.decided = progress.decided;
}

}  // namespace

void check_stored(const PointsInput& x, const KMeansOptions& options, const StoredCentres& seeds) {
  if (options.minibatch)
    throw ShapeError(x.asked.who +
                     ": centers on disk move by whole reads of X; method='lloyd' is needed, or centers in memory.");
  KMeansOptions asked = options;
  asked.centres.reset(), asked.k = options.k;
  check_kmeans(x, asked);
  if (!seeds.array) return;
  Shape shape = seeds.array.shape();
  if (seeds.transpose) std::swap(shape[0], shape[1]);
  if (shape != Shape{options.k, x.cols()} || is_complex(seeds.array.dtype()))
    throw ShapeError(x.asked.who + ": the centers are " + to_string(shape) + " " +
                     std::string(name_of(seeds.array.dtype())) + "; " + std::to_string(options.k) + " real ones of " +
                     std::to_string(x.cols()) + " columns are needed.");
}

bool centres_fit(const Graph& graph, const PointsInput& x, Index k) {
  const auto panels = panels_of(*x.dense, x.transpose);
  const auto values = static_cast<double>(k) * static_cast<double>(x.cols());
  const double needed = (36 + 8 * partial_sums(graph, panels->count())) * values +
                        static_cast<double>(graph.workers() + 1) * panel_bytes(*panels);
  return needed <= share_of_room * static_cast<double>(graph.budget());
}

void stored_kmeans(Graph& graph, const PointsInput& x, const KMeansOptions& options, const StoredCentres& seeds,
                   const Array& labels, const Array& centres, KMeansResult& result) {
  check_stored(x, options, seeds);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const LloydOptions lloyds{options.iterations, options.tol, x.unit};
  Stages stages(graph, options.checkpoint);
  Progress progress;
  Index reads = 0;
  StoredCentres from = seeds;
  if (!from.array && !stages.has("lloyd")) {
    const Init init = init_from_name(options.init);
    const auto before = static_cast<double>(seeding_passes(init, options.k));
    const double done = before / (before + static_cast<double>(planned_iterations(lloyds)) + 1);
    from = stored_seeds(graph, x, options.k, init, options.seed, stages, done, reads);
  }
  StoredLloyd lloyd(graph, x, options.k, lloyds, stages);
  lloyd.run(progress, std::move(from), "lloyd");
  if (labels) lloyd.label(progress, labels);
  lloyd.write(centres);
  fill(progress, result);
  result.passes = reads + lloyd.point_reads(), result.order = lloyd.order();
}

StoredMoves stored_lloyd(Graph& graph, const PointsInput& x, const LloydOptions& options, StoredCentres seeds,
                         Stages& stages, const Array& labels) {
  StoredMoves made;
  StoredLloyd lloyd(graph, x, seeds.array.shape()[seeds.transpose ? 1 : 0], options, stages);
  lloyd.run(made.progress, std::move(seeds), "stored lloyd");
  lloyd.label(made.progress, labels);
  made.point_reads = lloyd.point_reads(), made.order = lloyd.order();
  return made;
}

void assign_to_stored(Graph& graph, const PointsInput& x, const StoredCentres& centres, const Array& labels,
                      KMeansResult& result) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  Stages stages(graph, nullptr);
  Progress progress;
  StoredLloyd lloyd(graph, x, centres.array.shape()[centres.transpose ? 1 : 0], {.unit = x.unit}, stages);
  lloyd.begin(centres);
  lloyd.label(progress, labels);
  fill(progress, result);
  result.passes = lloyd.point_reads(), result.order = lloyd.order();
}

}  // namespace flagstone::centres
