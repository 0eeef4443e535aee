// Points that are rows of a sparse matrix: a panel is decoded once for each block.
#include <algorithm>

#include "flagstone/algorithms/centres/block_tasks.hpp"
#include "flagstone/algorithms/cluster/sparse_points.hpp"

namespace flagstone::centres {
namespace {

using namespace cluster;

struct SparsePart final : CallValue, BlockPart {
  explicit SparsePart(const SparsePanel& from) : panel(from) {}
  SparsePanel panel;
};

void run_assign(const Call& call, std::span<const Tile> tiles) {
  const auto& part = call.value_as<SparsePart>();
  const std::span<const Tile> block = tiles.subspan(static_cast<std::size_t>(part.block));
  const TurnedCentres centres{CentreBlocks::seen(block, part.panel.unit, Layout::coordinates), block[1],
                              block[4].as<const double>()};
  const BlockResults results(part, tiles);
  part.panel.each(tiles, tiles.back().data, [&](Index at, RowBatch& batch) {
    results.decided(batch.assign(centres));
    for (Index i = 0; i < batch.rows(); ++i) {
      const Index label = batch.labels()[i];
      const double square = batch.squares()[i], key = centres.seen.unit ? batch.key(i, centres, label) : square;
      results.take(at + i, label, key, square, batch.square(i));
    }
  });
}

void run_sums(const Call& call, std::span<const Tile> tiles) {
  const auto& part = call.value_as<SparsePart>();
  const Weights weights = part.weights_of(tiles);
  const auto* state = tiles[static_cast<std::size_t>(part.state)].as<const double>();
  auto* sums = tiles[static_cast<std::size_t>(part.sums)].as<double>();
  part.panel.each(tiles, tiles.back().data, [&](Index at, const RowBatch& batch) {
    for (Index i = 0; i < batch.rows(); ++i) {
      const Index place = static_cast<Index>(state[(at + i) * state_width + 2]) - part.first_centre;
      if (place >= 0 && place < part.centres) batch.add(i, weights.at(at + i), sums + place * part.panel.cols);
    }
  });
}

struct SparseTaking final : CallValue {
  explicit SparseTaking(const SparsePanel& from) : panel(from) {}
  SparsePanel panel;
  std::vector<TakenPoint> points;
};

void run_taking(const Call& call, std::span<const Tile> tiles) {
  const auto& part = call.value_as<SparseTaking>();
  auto next = part.points.begin();
  part.panel.each(tiles, tiles.back().data, [&](Index at, const RowBatch& batch) {
    for (; next != part.points.end() && next->place < at + batch.rows(); ++next) {
      double* to = tiles[static_cast<std::size_t>(next->tile)].as<double>() + next->to * part.panel.cols;
      std::fill_n(to, part.panel.cols, 0.0);
      batch.add(next->place - at, 1, to);
    }
  });
}

const bool entered = host_kernels().enter(Kernel::assign_to_block, {Dtype::float64}, run_assign) &&
                     host_kernels().enter(Kernel::sum_of_block, {Dtype::float64}, run_sums) &&
                     host_kernels().enter(Kernel::take_points, {Dtype::float64}, run_taking);

class SparseTasks final : public BlockTasks {
 public:
  using BlockTasks::BlockTasks;

  void assign(Index panel, Index block, bool first, bool last) override {
    TaskSpec task;
    task.name = "csr_assign";
    auto part = begin(task, panel);
    part_of_assign(task, *part, panel, block, first, last);
    part->panel.k = part->centres, task.cost = part->panel.cost();
    part->panel.k = centres_.step();  // tiles of coordinates are as wide as those of a whole block
    finish(task, Kernel::assign_to_block, std::move(part));
  }
  void add_sums(Index panel, Index block) override {
    TaskSpec task;
    task.name = "csr_sums";
    auto part = begin(task, panel);
    part_of_sums(task, *part, block);
    task.cost = part->panel.cost();
    finish(task, Kernel::sum_of_block, std::move(part));
  }

  void take(Index panel, std::vector<TakenPoint> points, const std::vector<Access>& targets) override {
    auto part = std::make_shared<SparseTaking>(SparsePanel(*x_.sparse, panel));
    TaskSpec task;
    task.name = "csr_take";
    part->panel.reader.access(task.accesses);
    part->panel.unit = x_.unit, part->panel.asked = x_.asked, part->points = std::move(points);
    const auto first = static_cast<int>(task.accesses.size());
    for (TakenPoint& one : part->points) one.tile += first;
    task.accesses.insert(task.accesses.end(), targets.begin(), targets.end());
    task.accesses.push_back(scratch(part->panel.bytes()));
    task.cost = part->panel.cost();
    task.calls = {Call(Kernel::take_points, Dtype::float64, {TilePart{0}})};
    task.calls[0].value = std::move(part);
    graph_.add(std::move(task));
  }
  Index first_row(Index panel) const override { return SparsePanel(*x_.sparse, panel).reader.row(); }

  double scratch_bytes() const override {
    std::size_t most = 0;
    for (std::size_t p = 0; p < x_.sparse->panels.size(); ++p) {
      SparsePanel panel(*x_.sparse, static_cast<Index>(p));
      panel.k = centres_.step();
      most = std::max(most, panel.bytes());
    }
    return static_cast<double>(most);
  }
  double panel_bytes() const override {
    Index most = 0;
    for (const CsrPanelRange& range : x_.sparse->panels) most = std::max(most, range.last - range.first);
    const CsrMatrix& stored = x_.sparse->stored;
    return static_cast<double>(most) *
           static_cast<double>(size_of(stored.data.dtype()) + size_of(stored.indices.dtype()));
  }
  double point_bytes() const override { return static_cast<double>(x_.sparse->matrix.stored_bytes); }

 private:
  std::shared_ptr<SparsePart> begin(TaskSpec& task, Index panel) const {
    auto part = std::make_shared<SparsePart>(SparsePanel(*x_.sparse, panel));
    part->panel.reader.access(task.accesses);
    part->panel.unit = x_.unit, part->panel.asked = x_.asked;
    part->first_row = part->panel.reader.row(), part->rows = part->panel.reader.rows();
    return part;
  }
  void finish(TaskSpec& task, Kernel kernel, std::shared_ptr<SparsePart> part) const {
    task.accesses.push_back(scratch(part->panel.bytes()));
    task.calls = {Call(kernel, Dtype::float64, {TilePart{0}})};
    task.calls[0].flops = task.cost.flops;
    task.calls[0].value = std::move(part);
    graph_.add(std::move(task));
  }
};

}  // namespace

std::unique_ptr<BlockTasks> make_sparse_tasks(Graph& graph, const PointsInput& x, const CentreBlocks& centres,
                                              const BlockArrays& to) {
  return std::make_unique<SparseTasks>(graph, x, centres, to);
}

}  // namespace flagstone::centres
