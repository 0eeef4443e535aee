#include "flagstone/algorithms/cluster/source.hpp"

#include <algorithm>
#include <numeric>

#include "flagstone/algorithms/cluster/dense_points.hpp"
#include "flagstone/algorithms/cluster/panel_work.hpp"
#include "flagstone/algorithms/cluster/sparse_points.hpp"

namespace flagstone::cluster {

Index PointsInput::rows() const { return sparse ? sparse->matrix.rows : dense->shape()[transpose ? 1 : 0]; }
Index PointsInput::cols() const { return sparse ? sparse->matrix.cols : dense->shape()[transpose ? 0 : 1]; }

std::unique_ptr<Source> make_source(const PointsInput& x) {
  return x.sparse ? make_sparse_source(x) : make_dense_source(x, panels_of(*x.dense, x.transpose));
}

std::unique_ptr<Source> make_batches(const PointsInput& x) {
  constexpr Index usual_rows = 1024, usual_panels = 64;
  if (x.sparse) return make_sparse_source(x);
  const DensePanels panels(*x.dense, x.transpose, spectral::Along::rows);
  const Index chunk = x.dense->chunks()[x.transpose ? 1 : 0], unit = chunk < panels.extent ? chunk : 16;
  const Index wanted = std::max(usual_rows, ceil_div(panels.extent, usual_panels));
  const Index rows = std::min(panels.step, ceil_div(wanted, unit) * unit);
  return make_dense_source(x, panels_in_rows(*x.dense, x.transpose, rows));
}

namespace {

void run_merge(const Call&, std::span<const Tile> tiles) { merge_pool(tiles[0], tiles[1]); }

const bool entered = host_kernels().enter(Kernel::merge_draws, {Dtype::float64}, run_merge);

}  // namespace

std::vector<Index> order_of(const Assignment& pass, Index panels) {
  if (!pass.panels.empty()) return pass.panels;
  std::vector<Index> order(static_cast<std::size_t>(panels));
  std::iota(order.begin(), order.end(), Index{0});
  if (pass.backwards) std::reverse(order.begin(), order.end());
  return order;
}

void add_fetch(Graph& graph, std::vector<Access> accesses) {
  TaskSpec task;
  task.name = "kmeans_fetch";
  for (Access& access : accesses) task.accesses.push_back(again(std::move(access)));
  task.body = [](std::span<const Tile>) {};
  graph.add(std::move(task));
}

void merge_offers(Graph& graph, const Array& offers, const Array& pool) {
  TaskSpec task;
  task.name = "kmeans_merge";
  task.accesses = {last(read({offers, whole(offers.shape())})), update({pool, whole(pool.shape())})};
  task.cost.bytes_touched = 2.0 * static_cast<double>(pool.nbytes());
  task.calls = {Call(Kernel::merge_draws, Dtype::float64, {TilePart{0}, TilePart{1}})};
  graph.add(std::move(task));
}

}  // namespace flagstone::cluster
