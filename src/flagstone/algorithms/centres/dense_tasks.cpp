// Points of a dense array.
#include "flagstone/algorithms/centres/block_tasks.hpp"
#include "flagstone/algorithms/cluster/dense_points.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::centres {
namespace {

using namespace cluster;

constexpr double bytes_of_value = 40;  // converting, rounding, distances and sums, as the bytes copied meanwhile

struct DensePart final : CallValue, BlockPart {
  PanelPieces pieces;

  std::size_t scores_bytes() const {
    return align_up(static_cast<std::size_t>(pieces.piece * kernel::scores_width(centres)) * 4, 64);
  }
  std::size_t labels_bytes() const { return align_up(static_cast<std::size_t>(pieces.piece) * 4, 64); }
  std::size_t scratch_bytes() const {
    return pieces.bytes() + scores_bytes() + labels_bytes() + align_up(static_cast<std::size_t>(pieces.piece) * 8, 64);
  }
};

void run_assign(const Call& call, std::span<const Tile> tiles) {
  const auto& part = call.value_as<DensePart>();
  const kernel::Centres centres =
      CentreBlocks::seen(tiles.subspan(static_cast<std::size_t>(part.block)), part.pieces.unit, Layout::rows);
  std::byte* const memory = tiles.back().data;
  auto* scores = reinterpret_cast<float*>(memory + part.pieces.bytes());
  auto* labels = reinterpret_cast<std::int32_t*>(memory + part.pieces.bytes() + part.scores_bytes());
  auto* squares = reinterpret_cast<double*>(reinterpret_cast<std::byte*>(labels) + part.labels_bytes());
  const kernel::RowTable& loops = kernel::row_loops();
  const BlockResults results(part, tiles);
  part.pieces.each(tiles[0], centres.shift, memory, [&](Index at, const kernel::Points& points) {
    results.decided(kernel::assign(points, centres, scores, labels, squares));
    for (Index i = 0; i < points.rows; ++i) {
      double score = squares[i];
      if (centres.unit) score = -loops.product(points.row(i), centres.exact + labels[i] * centres.d, centres.d);
      results.take(at + i, labels[i], score, squares[i], points.squares[i]);
    }
  });
}

void run_sums(const Call& call, std::span<const Tile> tiles) {
  const auto& part = call.value_as<DensePart>();
  const Index d = part.pieces.x->side;
  const std::vector<double> zero(static_cast<std::size_t>(d), 0.0);
  const kernel::RowTable& loops = kernel::row_loops();
  const Weights weights = part.weights_of(tiles);
  const auto* state = tiles[static_cast<std::size_t>(part.state)].as<const double>();
  auto* sums = tiles[static_cast<std::size_t>(part.sums)].as<double>();
  for (Index i = 0; i < part.rows; ++i) {
    const Index place = static_cast<Index>(state[i * state_width + 2]) - part.first_centre;
    if (place < 0 || place >= part.centres) continue;
    const kernel::Points point = part.pieces.load(tiles[0], i, 1, zero.data(), tiles.back().data);
    loops.add(point.row(0), weights.at(i) * point.scales[0], d, sums + place * d);
  }
}

struct DenseTaking final : CallValue {
  PanelPieces pieces;
  std::vector<TakenPoint> points;
};

void run_taking(const Call& call, std::span<const Tile> tiles) {
  const auto& part = call.value_as<DenseTaking>();
  const std::vector<double> zero(static_cast<std::size_t>(part.pieces.x->side), 0.0);
  for (const TakenPoint& one : part.points) {
    const kernel::Points point = part.pieces.load(tiles[0], one.place, 1, zero.data(), tiles.back().data);
    auto* to = tiles[static_cast<std::size_t>(one.tile)].as<double>() + one.to * point.d;
    for (Index l = 0; l < point.d; ++l) to[l] = point.scales[0] * point.exact[l];
  }
}

const bool entered = host_kernels().enter(Kernel::assign_to_block, {Dtype::float32}, run_assign) &&
                     host_kernels().enter(Kernel::sum_of_block, {Dtype::float32}, run_sums) &&
                     host_kernels().enter(Kernel::take_points, {Dtype::float32}, run_taking);

class DenseTasks final : public BlockTasks {
 public:
  DenseTasks(Graph& graph, const PointsInput& x, const CentreBlocks& centres, const BlockArrays& to)
      : BlockTasks(graph, x, centres, to), panels_(panels_of(*x.dense, x.transpose)) {}

  void assign(Index panel, Index block, bool first, bool last) override {
    auto part = begin(panel, piece_rows(*panels_, kernel::scores_width(centres_.step())));
    TaskSpec task;
    task.name = "kmeans_assign";
    task.accesses = {read(panels_->region(panel))};
    part_of_assign(task, *part, panel, block, first, last);
    task.accesses.push_back(scratch(part->scratch_bytes()));
    const auto values = static_cast<double>(part->rows * centres_.d());
    task.cost.flops = 2.0 * values * static_cast<double>(part->centres);
    task.cost.bytes_touched = bytes_of_value * values + 12.0 * static_cast<double>(part->rows * part->centres);
    task.calls = {Call(Kernel::assign_to_block, Dtype::float32, {TilePart{0}})};
    task.calls[0].flops = task.cost.flops;
    task.calls[0].value = std::move(part);
    graph_.add(std::move(task));
  }

  /// Loads only the rows that it adds.
  void add_sums(Index panel, Index block) override {
    auto part = begin(panel, 1);
    TaskSpec task;
    task.name = "kmeans_sums";
    task.accesses = {read(panels_->region(panel))};
    part_of_sums(task, *part, block);
    task.accesses.push_back(scratch(part->pieces.bytes()));
    const double share = static_cast<double>(part->centres) / static_cast<double>(centres_.k());
    task.cost.bytes_touched = bytes_of_value * share * static_cast<double>(part->rows * centres_.d()) +
                              8.0 * static_cast<double>(part->centres * centres_.d()) +
                              24.0 * static_cast<double>(part->rows);
    task.calls = {Call(Kernel::sum_of_block, Dtype::float32, {TilePart{0}})};
    task.calls[0].value = std::move(part);
    graph_.add(std::move(task));
  }

  void take(Index panel, std::vector<TakenPoint> points, const std::vector<Access>& targets) override {
    auto part = std::make_shared<DenseTaking>();
    part->pieces = {panels_, panel, 1, x_.unit, x_.asked}, part->points = std::move(points);
    TaskSpec task;
    task.name = "kmeans_take";
    task.accesses = {read(panels_->region(panel))};
    const auto first = static_cast<int>(task.accesses.size());
    for (TakenPoint& one : part->points) one.tile += first;
    task.accesses.insert(task.accesses.end(), targets.begin(), targets.end());
    task.accesses.push_back(scratch(part->pieces.bytes()));
    task.cost.bytes_touched =
        bytes_of_value * static_cast<double>(static_cast<Index>(part->points.size()) * centres_.d());
    task.calls = {Call(Kernel::take_points, Dtype::float32, {TilePart{0}})};
    task.calls[0].value = std::move(part);
    graph_.add(std::move(task));
  }
  Index first_row(Index panel) const override { return panels_->first(panel); }

  double scratch_bytes() const override {
    const auto part = begin(0, piece_rows(*panels_, kernel::scores_width(centres_.step())));
    part->centres = centres_.step();
    return static_cast<double>(part->scratch_bytes());
  }
  double panel_bytes() const override { return cluster::panel_bytes(*panels_); }
  double point_bytes() const override { return static_cast<double>(x_.dense->nbytes()); }

 private:
  std::shared_ptr<DensePart> begin(Index panel, Index piece) const {
    auto part = std::make_shared<DensePart>();
    part->pieces = {panels_, panel, piece, x_.unit, x_.asked};
    part->first_row = panels_->first(panel), part->rows = panels_->length(panel);
    return part;
  }

  std::shared_ptr<const DensePanels> panels_;
};

}  // namespace

std::unique_ptr<BlockTasks> make_dense_tasks(Graph& graph, const PointsInput& x, const CentreBlocks& centres,
                                             const BlockArrays& to) {
  return std::make_unique<DenseTasks>(graph, x, centres, to);
}

}  // namespace flagstone::centres
