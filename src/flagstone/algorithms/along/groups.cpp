#include "flagstone/algorithms/along/groups.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/along/work.hpp"
#include "flagstone/algorithms/elementwise/tile.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::along {
namespace {

constexpr std::uint64_t most_bytes = 64 * MiB;  // of accumulators that are filled side by side
constexpr Index most_slots = 8;

struct Fold final : Work {
  void run(std::span<const Tile> tiles) const override {
    if (first) std::memset(tiles[words].data, 0, tiles[words].bytes);
    kernel::group_rows(fold, values.of(tiles), elements_of<Index>(labels).data() + row, groups, tiles[words].data);
  }
  kernel::GroupFold fold = kernel::GroupFold::sum;
  Visited values;
  Array labels;
  Index row = 0, groups = 0;
  std::uint32_t words = 0;
  bool first = false;
};

struct Join final : Work {
  void run(std::span<const Tile> tiles) const override {
    kernel::join_groups(fold, dtype, groups, columns, tiles[0].data, tiles[1].data);
  }
  kernel::GroupFold fold = kernel::GroupFold::sum;
  Dtype dtype = Dtype::float64;
  Index groups = 0, columns = 0;
};

struct PutDown final : Work {
  void run(std::span<const Tile> tiles) const override {
    copy(dense(tiles[0], tiles[1].dtype, tiles[1].shape), tiles[1]);
  }
};

const bool entered =
    host_kernels().enter(Kernel::group_fold, run_work) && host_kernels().enter(Kernel::group_join, run_work);

}  // namespace

void fold_groups(Graph& graph, elementwise::Pass pass, kernel::GroupFold fold, const Array& labels, Index groups,
                 const Array& out, elementwise::Scheme& scheme) {
  pass.tile = elementwise::choose_tile(pass);
  pass.visit.last.assign(pass.shape.size(), false);
  pass.visit.last[0] = true;  // few accumulators are filled at a time
  const Dtype dtype = pass.program.dtype(pass.visit.values[0]);
  Shape rest(pass.tile.begin() + 1, pass.tile.end());
  const Shape grid = grid_of(pass.shape, pass.tile);
  const Index tiles = count(grid) / grid[0];
  const auto slot_words = static_cast<Index>(kernel::group_bytes(fold, dtype, groups, count(rest)) / 8);
  const auto fits =
      static_cast<Index>(most_bytes / std::max<std::uint64_t>(1, 8 * static_cast<std::uint64_t>(slot_words)));
  const Index slots = std::clamp<Index>(std::min(fits, grid[0]), 1, most_slots);
  const Array words = graph.temporary({tiles * slots * slot_words}, Dtype::float64, {slot_words});
  const auto slot = [=](Index tile, Index s) {
    return Region{words, {{(tile * slots + s) * slot_words}, {slot_words}}};
  };
  pass.visit.extends = 8 * static_cast<std::uint64_t>(slot_words);
  pass.visit.extend = [&, step = pass.tile](const Box& box, std::span<const elementwise::VisitedValue> values,
                                            TaskSpec& task) {
    auto work = std::make_shared<Fold>();
    work->fold = fold, work->values = {values[0], box}, work->labels = labels;
    work->row = box.start[0], work->groups = groups;
    Index tile = 0;
    for (std::size_t d = 1; d < step.size(); ++d) tile = tile * grid[d] + box.start[d] / step[d];
    const Index turn = box.start[0] / step[0];
    work->first = turn < slots;
    const Region mine = slot(tile, turn % slots);
    work->words = add_access(task, again(work->first ? write(mine) : update(mine)));
    const auto elements = static_cast<double>(count(box.shape));
    task.name = "group_fold";
    task.cost.flops += elements * (fold == kernel::GroupFold::var ? 5 : 1);
    task.cost.bytes_touched += 16 * elements;
    task.calls.push_back(call_of<Fold>(Kernel::group_fold, dtype, std::move(work)));
  };
  elementwise::run(graph, pass, scheme);
  // Every tile of columns: its accumulators in order, and into the result.
  const Shape kept(pass.shape.begin() + 1, pass.shape.end());
  Index tile = 0;
  std::vector<std::size_t> order(kept.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  for_each_box(whole(kept), rest, order, [&](const Box& box) {
    for (Index s = 1; s < slots; ++s) {
      auto work = std::make_shared<Join>();
      work->fold = fold, work->dtype = dtype, work->groups = groups, work->columns = count(box.shape);
      TaskSpec join;
      join.name = "group_join";
      join.accesses = {last(read(slot(tile, s))), again(update(slot(tile, 0)))};
      join.cost.bytes_touched = 24.0 * static_cast<double>(slot_words);
      join.calls = {call_of<Join>(Kernel::group_join, dtype, std::move(work))};
      graph.add(std::move(join));
    }
    Box to{{0, 0}, {out.shape()[0], groups}};
    to.start.insert(to.start.end(), box.start.begin(), box.start.end());
    to.shape.insert(to.shape.end(), box.shape.begin(), box.shape.end());
    TaskSpec put;
    put.name = "group_join";
    put.accesses = {last(read(slot(tile, 0))), write({out, to})};
    put.cost.bytes_touched = 16.0 * static_cast<double>(slot_words);
    put.calls = {call_of<PutDown>(Kernel::group_join, dtype, std::make_shared<PutDown>())};
    graph.add(std::move(put));
    ++tile;
  });
}

}  // namespace flagstone::along
