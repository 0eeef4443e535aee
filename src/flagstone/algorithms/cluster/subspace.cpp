#include "flagstone/algorithms/cluster/subspace.hpp"

#include "flagstone/algorithms/cluster/centre_arrays.hpp"
#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::cluster {
namespace {

Tile tile_of(const Array& array) { return spectral::matrix(numbers(array), array.shape()[0], array.shape()[1]); }

void count_work(Graph& graph, const Array& rows, Index r) {
  const auto flops = 2.0 * static_cast<double>(count(rows.shape())) * static_cast<double>(r);
  graph.host_work("projected", {flops, 0, true});
}

}  // namespace

Array Subspace::coordinates(Graph& graph, const Array& rows) const {
  Array made = graph.allocate({rows.shape()[0], size()}, Dtype::float64);
  count_work(graph, rows, size());
  if (!graph.planning()) kernel::gemm(1.0, tile_of(rows), {}, tile_of(basis), {}, 0.0, tile_of(made), nullptr);
  return made;
}

void Subspace::points(Graph& graph, const Array& coordinates, const Array& rows) const {
  count_work(graph, rows, size());
  if (graph.planning()) return;
  kernel::gemm(1.0, tile_of(coordinates), {}, tile_of(basis), {.transpose = true}, 0.0, tile_of(rows), nullptr);
}

}  // namespace flagstone::cluster
