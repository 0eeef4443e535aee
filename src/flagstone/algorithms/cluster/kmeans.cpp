#include "flagstone/algorithms/cluster/kmeans.hpp"

#include <algorithm>

#include "flagstone/algorithms/cluster/lloyd.hpp"
#include "flagstone/algorithms/cluster/minibatch.hpp"
#include "flagstone/algorithms/cluster/seeding.hpp"
#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::cluster {
namespace {

/// Points and centres of unit length, where that is what is compared.
Array copy_of(Graph& graph, const Array& given, bool unit) {
  const Array made = graph.allocate(given.shape(), Dtype::float64);
  if (graph.planning()) return made;
  const Index k = made.shape()[0], d = made.shape()[1];
  std::copy_n(numbers(given), k * d, numbers(made));
  if (!unit) return made;
  for (double* row = numbers(made); row < numbers(made) + k * d; row += d) make_unit(row, d);
  return made;
}

/// Panels of chosen rows are no chunks of the labels: these are put together in memory.
void write_labels(Graph& graph, const PointsInput& x, const Source& points, const Array& centres, const Array& out,
                  Progress& progress) {
  if (!x.sparse || !x.sparse->rows) return label(graph, points, centres, x.unit, out, progress);
  const Array held = graph.allocate(out.shape(), out.dtype());
  label(graph, points, centres, x.unit, held, progress);
  write_rows(graph, held, out);
}

Progress moved(Graph& graph, const PointsInput& x, const Source& points, const Array& centres,
               const KMeansOptions& options, const LloydOptions& lloyds, Stages& stages, KMeansResult& result) {
  if (!options.minibatch) return lloyd(graph, points, centres, lloyds, stages);
  const Array met = graph.allocate({1, options.k}, Dtype::float64);
  if (!graph.planning()) std::copy(options.met.begin(), options.met.end(), numbers(met));
  const MinibatchOptions batches{lloyds, options.seed, options.whole};
  const std::unique_ptr<Source> cut = options.whole ? nullptr : make_batches(x);
  Progress progress = minibatches(graph, cut ? *cut : points, centres, met, batches, stages);
  if (!graph.planning()) result.met.assign(numbers(met), numbers(met) + options.k);
  return progress;
}

void fill(const Progress& progress, const Array& centres, bool planning, KMeansResult& result) {
  result.iterations = progress.iteration, result.converged = progress.converged;
  if (planning) return;
  result.centres.assign(numbers(centres), numbers(centres) + count(centres.shape()));
  result.weights = progress.weights, result.inertia = progress.inertia, result.decided = progress.decided;
}

}  // namespace

void check_kmeans(const PointsInput& x, const KMeansOptions& options) {
  const std::string given = x.asked.who + ": ";
  if (x.dense && is_complex(x.dense->dtype()))
    throw ShapeError(given + "X is " + std::string(name_of(x.dense->dtype())) + "; real points are needed.");
  const bool batch = options.whole && options.centres;  // of as many points as there are
  if (options.k < 1 || (options.k > x.rows() && !batch))
    throw ShapeError(given + "k is " + std::to_string(options.k) + " and X has " + std::to_string(x.rows()) +
                     " rows; k must lie between 1 and that.");
  if (options.centres && options.centres->shape() != Shape{options.k, x.cols()})
    throw ShapeError(given + "the centers are " + to_string(options.centres->shape()) + " and X has " +
                     std::to_string(x.cols()) + " columns; centers of as many are needed.");
  if (x.weights && x.weights->shape() != Shape{x.rows()})
    throw ShapeError(given + "weights are " + to_string(x.weights->shape()) + " and X has " + std::to_string(x.rows()) +
                     " rows; one for each is needed.");
  if (!options.centres) init_from_name(options.init);
}

Index label_rows(const PointsInput& x) { return std::min(x.rows(), make_source(x)->step); }

void kmeans(Graph& graph, const PointsInput& x, const KMeansOptions& options, const Array& out, KMeansResult& result) {
  check_kmeans(x, options);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  const std::unique_ptr<Source> points = make_source(x);
  const Charge kept =
      graph.charge(8 * static_cast<std::uint64_t>(options.k) * static_cast<std::uint64_t>(x.cols() + 1));
  const LloydOptions lloyds{options.iterations, options.tol, x.unit};
  const Index before = options.centres ? 0 : seeding_passes(init_from_name(options.init), options.k);
  Stages stages(graph, options.checkpoint);
  const Array centres = stages.once(
      "seeds",
      [&] {
        if (options.centres) return copy_of(graph, *options.centres, x.unit);
        return seeds(graph, x, *points, options.k, init_from_name(options.init), options.seed);
      },
      static_cast<double>(before) / static_cast<double>(before + planned_iterations(lloyds) + 1));
  Progress progress = moved(graph, x, *points, centres, options, lloyds, stages, result);
  if (options.labels)
    write_labels(graph, x, *points, centres, out, progress);
  else
    write_rows(graph, centres, out);
  fill(progress, centres, graph.planning(), result);
  const Index after = options.labels ? 1 : 0;
  result.passes = before + progress.iteration + after;
}

void assign_labels(Graph& graph, const PointsInput& x, const Array& centres, const Array& labels,
                   KMeansResult& result) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const std::unique_ptr<Source> points = make_source(x);
  const Array own = copy_of(graph, centres, x.unit);
  Progress progress;
  write_labels(graph, x, *points, own, labels, progress);
  fill(progress, own, graph.planning(), result);
  result.passes = 1;
}

}  // namespace flagstone::cluster
