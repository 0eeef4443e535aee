#include "flagstone/flash/kmeans.hpp"

#include <string>

#include "flagstone/algorithms/centres/stored_kmeans.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::flash {
namespace {

/// float64 in memory := the seeds.
Array loaded(Graph& graph, const Array& seeds) {
  const Array made = graph.allocate(seeds.shape(), Dtype::float64);
  graph.await({read({seeds, whole(seeds.shape())})}, [&](std::span<const Tile> tiles) {
    kernel::convert(tiles[0], nullptr,
                    {made.store().memory(), Dtype::float64, made.shape(), made.store().memory_strides(), 0});
  });
  return made;
}

}  // namespace

Statistics kmeans(Runtime& runtime, const KMeansCall& call) {
  if (call.n < 1 || call.d < 1 || call.k < 1 || call.k > call.n || call.iterations < 1)
    throw ShapeError("kmeans: n, d, k and iterations are " + std::to_string(call.n) + ", " + std::to_string(call.d) +
                     ", " + std::to_string(call.k) + " and " + std::to_string(call.iterations) +
                     "; all must be 1 or more, and k at most n.");
  const auto stored = [&](const char* name, const Place& place, Index rows, Dtype dtype) {
    return StoredMatrix("kmeans", name, Order::row_major, {place, call.d}, rows, call.d, dtype);
  };
  const StoredMatrix given = stored("points", call.points, call.n, call.points_dtype),
                     written = stored("seeds", call.seeds, call.k, call.seeds_dtype);
  check_written(written, given);
  const Array points = given.lines_as_rows(), seeds = written.lines_as_rows();
  return runtime.run([&](Graph& graph) {
    cluster::KMeansOptions options{.k = call.k, .iterations = call.iterations, .tol = 0, .labels = false};
    const cluster::PointsInput x{.dense = points};
    cluster::KMeansResult result;
    if (!centres::centres_fit(graph, x, call.k))
      return centres::stored_kmeans(graph, x, options, {seeds}, {}, seeds, result);
    options.centres = loaded(graph, seeds);
    cluster::kmeans(graph, x, options, seeds, result);
  });
}

}  // namespace flagstone::flash
