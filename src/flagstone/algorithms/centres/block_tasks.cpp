#include "flagstone/algorithms/centres/block_tasks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "flagstone/algorithms/cluster/panel_work.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::centres {
namespace {

using namespace cluster;

constexpr double bytes_of_value = 40;  // converting, rounding, distances and sums, as the bytes copied meanwhile

/// One panel and one block, as the value of a call.
struct BlockPass final : CallValue {
  PanelPieces pieces;
  Index first_centre = 0, centres = 0, k = 0;
  bool begins = false;
  int weights = -1, totals = -1, farthest = -1, labels = -1;  // where the task's tiles are; -1: it has none

  std::size_t scores_bytes() const {
    return align_up(static_cast<std::size_t>(pieces.piece * kernel::scores_width(centres)) * 4, 64);
  }
  std::size_t labels_bytes() const { return align_up(static_cast<std::size_t>(pieces.piece) * 4, 64); }
  std::size_t scratch_bytes() const {
    return pieces.bytes() + scores_bytes() + labels_bytes() + align_up(static_cast<std::size_t>(pieces.piece) * 8, 64);
  }
  Weights weights_of(std::span<const Tile> tiles) const {
    return {weights < 0 ? nullptr : &tiles[static_cast<std::size_t>(weights)], pieces.asked.who, pieces.first()};
  }
};

int add(TaskSpec& task, Access access) {
  task.accesses.push_back(std::move(access));
  return static_cast<int>(task.accesses.size()) - 1;
}

void run_round(const Call&, std::span<const Tile> tiles) {
  const Index rows = tiles[0].shape[0], d = tiles[0].shape[1];
  *tiles[3].as<double>() = kernel::round_centres(tiles[0].as<const double>(), rows, d, tiles[4].as<const double>(),
                                                 tiles[1].as<float>(), tiles[2].as<float>());
}

/// What comes of a panel once all blocks have been met.
PassTiles results_of(const BlockPass& pass, std::span<const Tile> tiles) {
  PassTiles to{.totals = tiles[static_cast<std::size_t>(pass.totals)].as<double>(), .k = pass.k};
  if (pass.farthest >= 0) {
    const Tile& farthest = tiles[static_cast<std::size_t>(pass.farthest)];
    to.farthest = reinterpret_cast<Far*>(farthest.as<double>()), to.few = farthest.shape[1] / 4;
    std::fill_n(to.farthest, to.few, Far{0, -1, 0, 0});
  }
  return to;
}

/// Tiles: points, state, points that float64 decided, the block's; then those that the pass names; scratch.
constexpr std::size_t first_of_block = 3;

void run_assign(const Call& call, std::span<const Tile> tiles) {
  const auto& pass = call.value_as<BlockPass>();
  const kernel::Centres centres = CentreBlocks::seen(tiles.subspan(first_of_block), pass.pieces.unit);
  std::byte* const memory = tiles.back().data;
  auto* scores = reinterpret_cast<float*>(memory + pass.pieces.bytes());
  auto* labels = reinterpret_cast<std::int32_t*>(memory + pass.pieces.bytes() + pass.scores_bytes());
  auto* squares = reinterpret_cast<double*>(reinterpret_cast<std::byte*>(labels) + pass.labels_bytes());
  const kernel::RowTable& loops = kernel::row_loops();
  const Weights weights = pass.weights_of(tiles);
  const bool ends = pass.totals >= 0;
  const PassTiles to = ends ? results_of(pass, tiles) : PassTiles{};
  Index decided = 0;
  pass.pieces.each(tiles[0], centres.shift, memory, [&](Index at, const kernel::Points& points) {
    decided += kernel::assign(points, centres, scores, labels, squares);
    for (Index i = 0; i < points.rows; ++i) {
      double* state = tiles[1].as<double>() + (at + i) * state_width;
      double score = squares[i];
      if (centres.unit) score = -loops.product(points.row(i), centres.exact + labels[i] * centres.d, centres.d);
      if (std::isnan(score)) score = std::numeric_limits<double>::infinity();  // as where all centres are one block
      const double label = static_cast<double>(pass.first_centre + labels[i]);
      if (pass.begins || std::tuple(score, label) < std::tuple(state[0], state[2]))
        state[0] = score, state[1] = squares[i], state[2] = label;
      if (!ends) continue;
      const auto nearest = static_cast<Index>(state[2]);
      count_point(to, pass.pieces.first() + at + i, weights.at(at + i), nearest, state[1], points.squares[i]);
      if (pass.labels < 0) continue;
      const Tile& out = tiles[static_cast<std::size_t>(pass.labels)];
      *reinterpret_cast<std::int32_t*>(out.data + (at + i) * out.strides[0]) = static_cast<std::int32_t>(nearest);
    }
  });
  *tiles[2].as<double>() = static_cast<double>(decided);
}

/// Tiles: points, state, sums, weights if there are, scratch.
void run_sums(const Call& call, std::span<const Tile> tiles) {
  const auto& pass = call.value_as<BlockPass>();
  const Index d = pass.pieces.x->side;
  const std::vector<double> zero(static_cast<std::size_t>(d), 0.0);
  const kernel::RowTable& loops = kernel::row_loops();
  const Weights weights = pass.weights_of(tiles);
  for (Index i = 0; i < pass.pieces.rows(); ++i) {
    const Index place = static_cast<Index>(tiles[1].as<const double>()[i * state_width + 2]) - pass.first_centre;
    if (place < 0 || place >= pass.centres) continue;
    const kernel::Points point = pass.pieces.load(tiles[0], i, 1, zero.data(), tiles.back().data);
    loops.add(point.row(0), weights.at(i) * point.scales[0], d, tiles[2].as<double>() + place * d);
  }
}

const bool entered = host_kernels().enter(Kernel::round_centres, {Dtype::float32}, run_round) &&
                     host_kernels().enter(Kernel::assign_to_block, {Dtype::float32}, run_assign) &&
                     host_kernels().enter(Kernel::sum_of_block, {Dtype::float64}, run_sums);

}  // namespace

Index block_rows(Index k, Index d) {
  constexpr Index bytes = static_cast<Index>(4 * MiB), step = kernel::score_step;
  const Index rows = std::max<Index>(1, bytes / (8 * d));
  return std::min(k, rows < step ? rows : rows / step * step);
}

CentreBlocks::CentreBlocks(Graph& graph, Index k, Index d)
    : shift(graph.allocate({1, d}, Dtype::float64)),
      k_(k),
      d_(d),
      step_(block_rows(k, d)),
      rounded_(graph.temporary({k, d}, Dtype::float32, {step_, d})),
      half_(graph.allocate({count(), kernel::scores_width(step_)}, Dtype::float32)),
      longest_(graph.allocate({count(), 1}, Dtype::float64)) {}

void CentreBlocks::round(Graph& graph) const {
  for (Index b = 0; b < count(); ++b) {
    TaskSpec task;
    task.name = "kmeans_round";
    task.accesses = {read({exact, box(b)}), write({rounded_, box(b)}), write({half_, {{b, 0}, {1, half_.shape()[1]}}}),
                     write({longest_, {{b, 0}, {1, 1}}}), read({shift, whole(shift.shape())})};
    task.cost.bytes_touched = 20.0 * static_cast<double>(flagstone::count(box(b).shape));
    task.calls = {Call(Kernel::round_centres, Dtype::float32, {TilePart{0}})};
    graph.add(std::move(task));
  }
}

void CentreBlocks::access(Index block, std::vector<Access>& accesses) const {
  accesses.push_back(read({exact, box(block)}));
  accesses.push_back(read({rounded_, box(block)}));
  accesses.push_back(read({half_, {{block, 0}, {1, half_.shape()[1]}}}));
  accesses.push_back(read({longest_, {{block, 0}, {1, 1}}}));
  accesses.push_back(read({shift, whole(shift.shape())}));
}

kernel::Centres CentreBlocks::seen(std::span<const Tile> tiles, bool unit) {
  return {
      tiles[0].shape[0],          tiles[0].shape[1],           tiles[0].as<const double>(),  tiles[1].as<const float>(),
      tiles[2].as<const float>(), tiles[4].as<const double>(), *tiles[3].as<const double>(), unit};
}

BlockTasks::BlockTasks(Graph& graph, const PointsInput& x, const CentreBlocks& centres, const BlockArrays& to)
    : graph_(graph), x_(x), centres_(centres), to_(to), panels_(panels_of(*x.dense, x.transpose)) {}

Region BlockTasks::state_of(Index panel) const {
  return {to_.state, {{panels_->first(panel), 0}, {panels_->length(panel), state_width}}};
}

std::size_t BlockTasks::scratch_bytes() const {
  BlockPass pass;
  pass.centres = centres_.step();
  pass.pieces = {panels_, 0, piece_rows(*panels_, kernel::scores_width(pass.centres)), x_.unit, x_.asked};
  return pass.scratch_bytes();
}

void BlockTasks::assign(Index panel, Index block, bool first, bool last) {
  auto pass = std::make_shared<BlockPass>();
  const Index piece = piece_rows(*panels_, kernel::scores_width(centres_.step()));
  pass->pieces = {panels_, panel, piece, x_.unit, x_.asked};
  pass->first_centre = centres_.first(block), pass->centres = centres_.length(block), pass->k = centres_.k();
  pass->begins = first;
  const Index row = panels_->first(panel), rows = panels_->length(panel);
  TaskSpec task;
  task.name = "kmeans_assign";
  task.accesses = {read(panels_->region(panel)), again(first ? write(state_of(panel)) : update(state_of(panel))),
                   write({to_.opened, {{panel, block}, {1, 1}}})};
  centres_.access(block, task.accesses);
  if (x_.weights) pass->weights = add(task, read({*x_.weights, {{row}, {rows}}}));
  if (last) {
    pass->totals = add(task, reduce({to_.totals, whole(to_.totals.shape())}));
    if (to_.farthest) pass->farthest = add(task, write({to_.farthest, {{panel, 0}, {1, to_.farthest.shape()[1]}}}));
    if (to_.labels) pass->labels = add(task, write({to_.labels, {{row}, {rows}}}));
  }
  task.accesses.push_back(scratch(pass->scratch_bytes()));
  const auto values = static_cast<double>(rows * centres_.d()), scores = static_cast<double>(rows * pass->centres);
  task.cost.flops = 2.0 * values * static_cast<double>(pass->centres);
  task.cost.bytes_touched = bytes_of_value * values + 12.0 * scores;
  task.calls = {Call(Kernel::assign_to_block, Dtype::float32, {TilePart{0}})};
  task.calls[0].flops = task.cost.flops;
  task.calls[0].value = std::move(pass);
  graph_.add(std::move(task));
}

void BlockTasks::add_sums(Index panel, Index block) {
  auto pass = std::make_shared<BlockPass>();
  pass->pieces = {panels_, panel, 1, x_.unit, x_.asked};
  pass->first_centre = centres_.first(block), pass->centres = centres_.length(block);
  const Index row = panels_->first(panel), rows = panels_->length(panel);
  TaskSpec task;
  task.name = "kmeans_sums";
  task.accesses = {read(panels_->region(panel)), read(state_of(panel)), reduce({to_.sums, centres_.box(block)})};
  if (x_.weights) pass->weights = add(task, read({*x_.weights, {{row}, {rows}}}));
  task.accesses.push_back(scratch(pass->pieces.bytes()));
  const double share = static_cast<double>(pass->centres) / static_cast<double>(centres_.k());
  task.cost.bytes_touched = bytes_of_value * share * static_cast<double>(rows * centres_.d()) +
                            8.0 * static_cast<double>(count(centres_.box(block).shape)) +
                            24.0 * static_cast<double>(rows);
  task.calls = {Call(Kernel::sum_of_block, Dtype::float64, {TilePart{0}})};
  task.calls[0].value = std::move(pass);
  graph_.add(std::move(task));
}

}  // namespace flagstone::centres
