#include "flagstone/algorithms/centres/block_tasks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "flagstone/base/bytes.hpp"

namespace flagstone::centres {
namespace {

using namespace cluster;

int add(TaskSpec& task, Access access) {
  task.accesses.push_back(std::move(access));
  return static_cast<int>(task.accesses.size()) - 1;
}

template <class T>
T* at(std::span<const Tile> tiles, int place) {
  return place < 0 ? nullptr : tiles[static_cast<std::size_t>(place)].as<T>();
}

/// Tiles: the block, rounded, half, the largest length, the shift.
void run_round(const Call&, std::span<const Tile> tiles) {
  const Index rows = tiles[0].shape[0], d = tiles[0].shape[1];
  *tiles[3].as<double>() = kernel::round_centres(tiles[0].as<const double>(), rows, d, tiles[4].as<const double>(),
                                                 tiles[1].as<float>(), tiles[2].as<float>());
}

/// The same by coordinates; the last tile but scratch is their squares.
void run_turn(const Call&, std::span<const Tile> tiles) {
  const Index rows = tiles[0].shape[0], d = tiles[0].shape[1], width = tiles[1].shape[1];
  const auto* exact = tiles[0].as<const double>();
  auto *rounded = reinterpret_cast<float*>(tiles.back().data), *turned = tiles[1].as<float>();
  const std::vector<double> zero(static_cast<std::size_t>(d), 0.0);
  auto* half = tiles[2].as<float>();
  *tiles[3].as<double>() = kernel::round_centres(exact, rows, d, zero.data(), rounded, half);
  std::fill(half + kernel::scores_width(rows), half + width, std::numeric_limits<float>::infinity());
  for (Index j = 0; j < rows; ++j)
    tiles[4].as<double>()[j] = kernel::row_loops().product(exact + j * d, exact + j * d, d);
  for (Index l = 0; l < d; ++l)
    for (Index j = 0; j < width; ++j) turned[l * width + j] = j < rows ? rounded[j * d + l] : 0.0F;
}

const bool entered = host_kernels().enter(Kernel::round_centres, {Dtype::float32}, run_round) &&
                     host_kernels().enter(Kernel::round_centres, {Dtype::float64}, run_turn);

}  // namespace

void forget(Graph& graph, const Region& tile) {
  if (tile.array.in_memory()) return;
  TaskSpec task;
  task.name = "kmeans_forget";
  task.accesses = {last(write(tile))};  // a tile that is gone is not loaded
  task.body = [](std::span<const Tile>) {};
  graph.add(std::move(task));
}

void forget(Graph& graph, const Array& array, Index rows) {
  const Index all = array.shape()[0];
  for (Index first = 0; first < all; first += rows)
    forget(graph, {array, {{first, 0}, {std::min(rows, all - first), array.shape()[1]}}});
}

Index block_rows(Index k, Index d, Layout layout) {
  constexpr Index bytes = static_cast<Index>(4 * MiB), step = kernel::score_step;
  const Index rows = std::max(layout == Layout::rows ? Index{1} : step, bytes / (8 * d));
  return std::min(k, rows < step ? rows : rows / step * step);
}

CentreBlocks::CentreBlocks(Graph& graph, Index k, Index d, Layout layout, Index step)
    : shift(graph.allocate({1, d}, Dtype::float64)), k_(k), d_(d), step_(step), layout_(layout) {
  const Index width = kernel::scores_width(step_);
  if (layout == Layout::rows) {
    rounded_ = graph.temporary({k, d}, Dtype::float32, {step_, d});
  } else {
    rounded_ = graph.temporary({count() * d, width}, Dtype::float32, {d, width});
    squares_ = graph.allocate({1, k}, Dtype::float64);
  }
  half_ = graph.allocate({count(), width}, Dtype::float32);
  longest_ = graph.allocate({count(), 1}, Dtype::float64);
}

Region CentreBlocks::rounded(Index block) const {
  if (layout_ == Layout::rows) return {rounded_, box(block)};
  return {rounded_, {{block * d_, 0}, {d_, rounded_.shape()[1]}}};
}

void CentreBlocks::round(Graph& graph) const {
  for (Index b = 0; b < count(); ++b) {
    TaskSpec task;
    task.name = "kmeans_round";
    task.accesses = {read({exact, box(b)}), write(rounded(b)), write({half_, {{b, 0}, {1, half_.shape()[1]}}}),
                     write({longest_, {{b, 0}, {1, 1}}})};
    const Index values = flagstone::count(box(b).shape);
    if (layout_ == Layout::rows) {
      task.accesses.push_back(read({shift, whole(shift.shape())}));
    } else {
      task.accesses.push_back(write({squares_, {{0, first(b)}, {1, length(b)}}}));
      task.accesses.push_back(scratch(static_cast<std::size_t>(values) * 4));
    }
    task.cost.bytes_touched = 20.0 * static_cast<double>(values);
    task.calls = {
        Call(Kernel::round_centres, layout_ == Layout::rows ? Dtype::float32 : Dtype::float64, {TilePart{0}})};
    graph.add(std::move(task));
  }
}

void CentreBlocks::forget_rounded(Graph& graph, Index block) const { forget(graph, rounded(block)); }

void CentreBlocks::access(Index block, std::vector<Access>& to) const {
  to.push_back(read({exact, box(block)}));
  to.push_back(read(rounded(block)));
  to.push_back(read({half_, {{block, 0}, {1, half_.shape()[1]}}}));
  to.push_back(read({longest_, {{block, 0}, {1, 1}}}));
  to.push_back(layout_ == Layout::rows ? read({shift, whole(shift.shape())})
                                       : read({squares_, {{0, first(block)}, {1, length(block)}}}));
}

kernel::Centres CentreBlocks::seen(std::span<const Tile> tiles, bool unit, Layout layout) {
  const bool rows = layout == Layout::rows;
  return {tiles[0].shape[0],
          tiles[0].shape[1],
          tiles[0].as<const double>(),
          rows ? tiles[1].as<const float>() : nullptr,
          tiles[2].as<const float>(),
          rows ? tiles[4].as<const double>() : nullptr,
          *tiles[3].as<const double>(),
          unit};
}

Weights BlockPart::weights_of(std::span<const Tile> tiles) const {
  return {weights < 0 ? nullptr : &tiles[static_cast<std::size_t>(weights)], who, first_row};
}

BlockResults::BlockResults(const BlockPart& part, std::span<const Tile> tiles)
    : part_(part),
      weights_(part.weights_of(tiles)),
      to_{.totals = at<double>(tiles, part.totals), .k = part.k},
      state_(at<double>(tiles, part.state)),
      opened_(at<double>(tiles, part.opened)),
      labels_(part.labels < 0 ? nullptr : &tiles[static_cast<std::size_t>(part.labels)]) {
  *opened_ = 0;
  if (part.farthest < 0) return;
  to_.farthest = reinterpret_cast<Far*>(at<double>(tiles, part.farthest));
  to_.few = tiles[static_cast<std::size_t>(part.farthest)].shape[1] / 4;
  std::fill_n(to_.farthest, to_.few, Far{0, -1, 0, 0});
}

void BlockResults::take(Index i, Index label, double score, double square, double spread) const {
  double* state = state_ + i * state_width;
  if (std::isnan(score)) score = std::numeric_limits<double>::infinity();  // as where all centres are one block
  const auto number = static_cast<double>(part_.first_centre + label);
  if (part_.begins || std::tuple(score, number) < std::tuple(state[0], state[2]))
    state[0] = score, state[1] = square, state[2] = number;
  if (part_.totals < 0) return;
  const auto nearest = static_cast<Index>(state[2]);
  count_point(to_, part_.first_row + i, weights_.at(i), nearest, state[1], spread);
  if (labels_)
    *reinterpret_cast<std::int32_t*>(labels_->data + i * labels_->strides[0]) = static_cast<std::int32_t>(nearest);
}

void BlockTasks::part_of_assign(TaskSpec& task, BlockPart& part, Index panel, Index block, bool first,
                                bool last) const {
  const Box line{{part.first_row}, {part.rows}};
  const Region state{to_.state, {{part.first_row, 0}, {part.rows, state_width}}};
  part.who = x_.asked.who;
  part.first_centre = centres_.first(block), part.centres = centres_.length(block), part.k = centres_.k();
  part.begins = first;
  part.state = add(task, again(first ? write(state) : update(state)));
  part.opened = add(task, write({to_.opened, {{panel, block}, {1, 1}}}));
  part.block = static_cast<int>(task.accesses.size());
  centres_.access(block, task.accesses);
  if (x_.weights) part.weights = add(task, read({*x_.weights, line}));
  if (!last || !to_.totals) return;
  part.totals = add(task, reduce({to_.totals, whole(to_.totals.shape())}));
  if (to_.farthest) part.farthest = add(task, write({to_.farthest, {{panel, 0}, {1, to_.farthest.shape()[1]}}}));
  if (to_.labels) part.labels = add(task, write({to_.labels, line}));
}

void BlockTasks::part_of_sums(TaskSpec& task, BlockPart& part, Index block) const {
  part.who = x_.asked.who;
  part.first_centre = centres_.first(block), part.centres = centres_.length(block), part.k = centres_.k();
  part.state = add(task, read({to_.state, {{part.first_row, 0}, {part.rows, state_width}}}));
  part.sums = add(task, reduce({to_.sums, centres_.box(block)}));
  if (x_.weights) part.weights = add(task, read({*x_.weights, {{part.first_row}, {part.rows}}}));
}

std::unique_ptr<BlockTasks> make_tasks(Graph& graph, const PointsInput& x, const CentreBlocks& centres,
                                       const BlockArrays& to) {
  return x.sparse ? make_sparse_tasks(graph, x, centres, to) : make_dense_tasks(graph, x, centres, to);
}

}  // namespace flagstone::centres
