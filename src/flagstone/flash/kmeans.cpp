#include "flagstone/flash/kmeans.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "flagstone/algorithms/cluster/kmeans.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::flash {
namespace {

Array rows_at(const char* name, const Place& place, Index rows, Index cols, Dtype dtype) {
  if (place.file)
    return place.file->array({.shape = {rows, cols}, .dtype = dtype, .offset = place.offset, .leading = cols});
  if (place.memory == nullptr)
    throw ShapeError(std::string("kmeans: ") + name + " is a null pointer and holds " + to_string({rows, cols}) +
                     " elements; map a file or allocate it first.");
  return memory_array(place.memory, {rows, cols}, dtype, c_strides({rows, cols}, size_of(dtype)));
}

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
  const Array points = rows_at("points", call.points, call.n, call.d, call.points_dtype);
  const Array seeds = rows_at("seeds", call.seeds, call.k, call.d, call.seeds_dtype);
  if (call.seeds.file && !call.seeds.file->writable())
    throw StorageError("kmeans: the seeds are mapped for reading; map them with update", EROFS,
                       call.seeds.file->path());
  return runtime.run([&](Graph& graph) {
    cluster::KMeansOptions options{.k = call.k, .iterations = call.iterations, .tol = 0, .labels = false};
    options.centres = loaded(graph, seeds);
    cluster::KMeansResult result;
    cluster::kmeans(graph, {.dense = points}, options, seeds, result);
  });
}

}  // namespace flagstone::flash
