#include "flagstone/algorithms/cluster/distances.hpp"

#include <cmath>

#include "flagstone/algorithms/cluster/knn.hpp"

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

const bool entered = host_kernels().enter(Kernel::point_distances, {Dtype::float64}, run_distances);

}  // namespace

void distances(Graph& graph, const PointsInput& x, const Array& centres, const Array& out) {
  const std::shared_ptr<const DensePanels> panels =
      panels_in_rows(*x.dense, x.transpose, query_rows(*x.dense, x.transpose));
  const Index k = centres.shape()[0], d = panels->side, step = out.chunks()[1];
  for (Index p = 0; p < panels->count(); ++p)
    for (Index j = 0; j < k; j += step) {
      const Index some = std::min(step, k - j);
      auto value = std::make_shared<PanelDistances>();
      value->pieces = {panels, p, piece_rows(*panels, 0), x.unit, x.asked};
      TaskSpec task;
      task.name = "distances";
      task.accesses = {read(panels->region(p)), read({centres, {{j, 0}, {some, d}}}),
                       once(write({out, {{panels->first(p), j}, {panels->length(p), some}}})),
                       scratch(value->pieces.bytes())};
      const auto values = static_cast<double>(panels->length(p) * d);
      task.cost.flops = 3 * values * static_cast<double>(some), task.cost.float64 = true;
      task.cost.bytes_touched = 40 * values + task.cost.flops / 2;  // beyond BLAS's rate
      task.calls = {Call(Kernel::point_distances, Dtype::float64, {TilePart{0}})};
      task.calls[0].flops = task.cost.flops;
      task.calls[0].value = std::move(value);
      graph.add(std::move(task));
    }
  graph.barrier();
}

}  // namespace flagstone::cluster
