#include "flagstone/algorithms/cluster/distances.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/cluster/centre_arrays.hpp"
#include "flagstone/algorithms/cluster/knn.hpp"
#include "flagstone/algorithms/cluster/sparse_points.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::cluster {
namespace {

/// One panel, as the value of a call; its tiles are the points, the centres, what is written, scratch.
struct PanelDistances final : CallValue {
  PanelPieces pieces;
};

double distance(const kernel::Points& points, Index i, const double* centre, bool unit) {
  const kernel::RowTable& loops = kernel::row_loops();
  if (!unit) return std::sqrt(loops.distance(points.row(i), 1, centre, 1, points.d));
  const double length = std::sqrt(loops.product(centre, centre, points.d));
  const double product = loops.product(points.row(i), centre, points.d) * points.scales[i];
  return length > 0 ? std::max(0.0, 1 - product / length) : 1.0;
}

void run_distances(const Call& call, std::span<const Tile> tiles) {
  const PanelPieces& pieces = call.value_as<PanelDistances>().pieces;
  const auto* centres = tiles[1].as<const double>();
  const Index k = tiles[1].shape[0], d = tiles[1].shape[1];
  const std::vector<double> zero(static_cast<std::size_t>(d), 0.0);
  pieces.each(tiles[0], zero.data(), tiles[3].data, [&](Index at, const kernel::Points& points) {
    for (Index i = 0; i < points.rows; ++i) {
      auto* to = reinterpret_cast<double*>(tiles[2].data + (at + i) * tiles[2].strides[0]);
      for (Index j = 0; j < k; ++j) to[j] = distance(points, i, centres + j * d, pieces.unit);
    }
  });
}

/// The same of sparse points, whose tiles come first; then the centres, what is written, scratch.
struct SparseDistances final : CallValue, SparsePanel {
  SparseDistances(const sparse::CsrOperand& a, Index panel) : SparsePanel(a, panel) {}
  std::size_t scratch_bytes(Index some) const { return align_up(bytes(), 64) + 8 * static_cast<std::size_t>(some); }
};

void run_sparse_distances(const Call& call, std::span<const Tile> tiles) {
  const auto& pass = call.value_as<SparseDistances>();
  const Tile &centres = tiles[tiles.size() - 3], &out = tiles[tiles.size() - 2];
  const Index k = centres.shape[0], d = centres.shape[1];
  auto* squares = reinterpret_cast<double*>(tiles.back().data + align_up(pass.bytes(), 64));
  TurnedCentres turned{.seen = {}, .columns = {}, .squares = squares};
  turned.seen.k = k, turned.seen.d = d, turned.seen.exact = centres.as<const double>(), turned.seen.unit = pass.unit;
  for (Index j = 0; j < k; ++j)
    squares[j] = kernel::row_loops().product(turned.seen.exact + j * d, turned.seen.exact + j * d, d);
  pass.each(tiles, tiles.back().data, [&](Index at, const RowBatch& batch) {
    for (Index i = 0; i < batch.rows(); ++i) {
      auto* to = reinterpret_cast<double*>(out.data + (at + i) * out.strides[0]);
      for (Index j = 0; j < k; ++j) to[j] = batch.apart(i, turned, j);
    }
  });
}

// As of assign_points: by float32 the one of dense points, whose values are rounded to it, and that of sparse ones.
const bool entered = host_kernels().enter(Kernel::point_distances, {Dtype::float64}, run_distances) &&
                     host_kernels().enter(Kernel::point_distances, {Dtype::float32}, run_sparse_distances);

/// Adds the task of one panel of points and some centres, whose last three accesses these are.
void add_distances(Graph& graph, TaskSpec task, const Region& centres, const Region& out, std::size_t bytes,
                   Dtype kernel, std::shared_ptr<const CallValue> value) {
  task.name = "distances";
  task.accesses.push_back(read(centres));
  task.accesses.push_back(once(write(out)));
  task.accesses.push_back(scratch(bytes));
  task.calls = {Call(Kernel::point_distances, kernel, {TilePart{0}})};
  task.calls[0].flops = task.cost.flops;
  task.calls[0].value = std::move(value);
  graph.add(std::move(task));
}

void dense_distances(Graph& graph, const PointsInput& x, const Array& centres, const Array& out) {
  const std::shared_ptr<const DensePanels> panels =
      panels_in_rows(*x.dense, x.transpose, query_rows(*x.dense, x.transpose));
  const Index k = centres.shape()[0], d = panels->side, step = out.chunks()[1];
  for (Index p = 0; p < panels->count(); ++p)
    for (Index j = 0; j < k; j += step) {
      const Index some = std::min(step, k - j);
      auto value = std::make_shared<PanelDistances>();
      value->pieces = {panels, p, piece_rows(*panels, 0), x.unit, x.asked};
      const std::size_t bytes = value->pieces.bytes();
      const auto values = static_cast<double>(panels->length(p) * d);
      TaskSpec task;
      task.accesses = {read(panels->region(p))};
      task.cost.flops = 3 * values * static_cast<double>(some), task.cost.float64 = true;
      task.cost.bytes_touched = 40 * values + task.cost.flops / 2;  // beyond BLAS's rate
      add_distances(graph, std::move(task), {centres, {{j, 0}, {some, d}}},
                    {out, {{panels->first(p), j}, {panels->length(p), some}}}, bytes, Dtype::float64, std::move(value));
    }
}

/// Distances from the centres [j, j + some), to columns of `to` from `col` on.
void add_panels(Graph& graph, const PointsInput& x, const Array& centres, Index j, Index some, const Array& to,
                Index col) {
  const Index d = x.cols();
  for (std::size_t p = 0; p < x.sparse->panels.size(); ++p) {
    auto value = std::make_shared<SparseDistances>(*x.sparse, static_cast<Index>(p));
    value->unit = x.unit, value->asked = x.asked;
    const Index first = value->reader.row(), rows = value->reader.rows();
    TaskSpec task;
    value->reader.access(task.accesses);
    task.cost = value->cost();
    const auto nnz = static_cast<double>(value->reader.nnz()), columns = static_cast<double>(some);
    task.cost.flops = 5 * nnz * columns + 2 * columns * static_cast<double>(d), task.cost.float64 = true;
    task.cost.bytes_touched += task.cost.flops / 2;
    const std::size_t bytes = value->scratch_bytes(some);
    add_distances(graph, std::move(task), {centres, {{j, 0}, {some, d}}}, {to, {{first, col}, {rows, some}}}, bytes,
                  Dtype::float32, std::move(value));
  }
}

void sparse_distances(Graph& graph, const PointsInput& x, const Array& centres, const Array& out) {
  const Index k = centres.shape()[0], step = out.chunks()[1];
  if (!x.sparse->rows) {
    for (Index j = 0; j < k; j += step) add_panels(graph, x, centres, j, std::min(step, k - j), out, j);
    return;
  }
  // Panels of chosen rows are no chunks of `out`: some columns of it are put together in memory, with a read each.
  const auto column = 8 * static_cast<std::uint64_t>(std::max<Index>(1, x.rows() * step));
  const Index several = std::clamp<Index>(static_cast<Index>(graph.budget() / 4 / column), 1, ceil_div(k, step)) * step;
  for (Index j = 0; j < k; j += several) {
    const Index some = std::min(several, k - j);
    const Array held = graph.allocate({x.rows(), some}, Dtype::float64);
    for (Index at = 0; at < some; at += step)
      add_panels(graph, x, centres, j + at, std::min(step, some - at), held, at);
    graph.barrier();
    write_rows(graph, held, out, j);
  }
}

}  // namespace

void distances(Graph& graph, const PointsInput& x, const Array& centres, const Array& out) {
  x.sparse ? sparse_distances(graph, x, centres, out) : dense_distances(graph, x, centres, out);
  graph.barrier();
}

}  // namespace flagstone::cluster
