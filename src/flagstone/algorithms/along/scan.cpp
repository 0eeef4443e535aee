#include "flagstone/algorithms/along/scan.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "flagstone/algorithms/along/work.hpp"
#include "flagstone/algorithms/elementwise/operand.hpp"
#include "flagstone/algorithms/elementwise/tile.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::along {
namespace {

struct ScanWork final : Work {
  void run(std::span<const Tile> tiles) const override {
    const Tile from = values.of(tiles), to = tiles[out];
    kernel::scan(options, from, to, dense(tiles[carry], to.dtype, lanes));
  }
  kernel::ScanOptions options;
  Visited values;
  std::uint32_t out = 0, carry = 0;
  Shape lanes;
};

struct DifferenceWork final : Work {
  void run(std::span<const Tile> tiles) const override {
    const auto seen = [&](const Tile& tile) {
      if (!transposed) return tile;
      Tile turned = tile;
      turned.shape = elementwise::reversed(tile.shape), turned.strides = elementwise::reversed(tile.strides);
      return turned;
    };
    const Tile own = seen(tiles[0]), after = next ? seen(tiles[1]) : Tile{};
    const std::size_t out = next ? 2 : 1;
    kernel::difference(times, axis, own, next ? &after : nullptr, tiles[out],
                       times > 1 ? tiles[out + 1].data : nullptr);
  }
  int times = 1;
  std::size_t axis = 0;
  bool next = false, transposed = false;
};

const bool entered = host_kernels().enter(Kernel::scan, run_work) && host_kernels().enter(Kernel::difference, run_work);

/// Dimensions, slowest first, the axis last: what a tile hands on is needed at once.
std::vector<std::size_t> order_along(std::size_t axis, std::size_t ndim) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < ndim; ++d)
    if (d != axis) order.push_back(d);
  order.push_back(axis);
  return order;
}

/// Tiles of a pass, one behind the other along the axis: a column hands its carry on.
struct Columns {
  Columns(const Shape& shape, Shape tiles, std::size_t along)
      : grid(grid_of(shape, tiles)), tile(std::move(tiles)), axis(along), extent(shape[along]) {
    for (std::size_t d = 0; d < grid.size(); ++d)
      if (d != axis) lanes *= tile[d], number *= grid[d];
  }

  Index of(const Box& box) const {
    Index column = 0;
    for (std::size_t d = 0; d < tile.size(); ++d)
      if (d != axis) column = column * grid[d] + box.start[d] / tile[d];
    return column;
  }
  Region carry_of(const Array& carries, const Box& box) const { return {carries, {{of(box) * lanes}, {lanes}}}; }
  Shape lanes_of(const Box& box) const {
    Shape shape = box.shape;
    shape[axis] = 1;
    return shape;
  }
  bool ends(const Box& box) const { return box.start[axis] + box.shape[axis] == extent; }
  /// What is written of the result, which has one element more with `initial`.
  Box result_of(const Box& box, bool initial) const {
    Box to = box;
    if (initial && ends(box)) ++to.shape[axis];
    return to;
  }
  Box next(const Box& box) const {
    Box after = box;
    after.start[axis] += tile[axis];
    after.shape[axis] = std::min(tile[axis], extent - after.start[axis]);
    return after;
  }

  Shape grid, tile;
  std::size_t axis;
  Index extent, lanes = 1, number = 1;  // lanes of a tile; columns
};

/// Which tiles an earlier run finished, and in which columns the carry has to be found again.
class Progress {
 public:
  Progress(Graph& graph, const Columns& columns, const FinishedTiles& finished, bool initial)
      : columns_(columns), finished_(finished), initial_(initial) {
    const auto number = static_cast<std::size_t>(columns.number);
    if (const std::uint64_t bytes = align_down(number)) charge_ = graph.charge(bytes);  // less is in the reserve
    carried_.assign(number, 0);
  }

  /// With `initial` the result's first element of a tile is what came before it, not what the tile gives: so the last
  /// finished tile is done once more.
  bool skips(const Box& box) {
    bool done = finished_.holds(columns_.result_of(box, initial_));
    if (done && initial_ && !columns_.ends(box)) done = finished_.holds(columns_.result_of(columns_.next(box), true));
    if (done) carried_[column(box)] = 0;
    return done;
  }
  /// Whether the tile, which is visited now, goes on from one that was not.
  bool goes_on(const Box& box) { return !std::exchange(carried_[column(box)], 1) && box.start[columns_.axis] > 0; }

 private:
  std::size_t column(const Box& box) const { return static_cast<std::size_t>(columns_.of(box)); }

  const Columns& columns_;
  const FinishedTiles& finished_;
  bool initial_;
  std::vector<std::uint8_t> carried_;  // by column: the tile before was visited
  Charge charge_;
};

/// carry := what all elements before the box gave. It stands in the result, of whose dtype it is: the element before
/// the box's, or with `initial` the box's own first one.
void take_up(Graph& graph, const kernel::ScanOptions& options, const Array& out, const Columns& columns, const Box& box,
             const Region& carry) {
  Box from = columns.result_of(box, options.initial);  // the box that is written next: others must not overlap it
  if (!options.initial) --from.start[options.axis], from.shape[options.axis] = 1;
  graph.add({.name = "take up",
             .accesses = {read({out, from}), again(write(carry))},
             .body = [lanes = columns.lanes_of(box)](std::span<const Tile> tiles) {  // too little for a kernel
               Tile given = tiles[0];
               given.shape = lanes;
               copy(given, dense(tiles[1], given.dtype, lanes));
             }});
}

}  // namespace

Shape tile_with(const elementwise::Pass& pass, const Array& out) {
  elementwise::Pass shadow = pass;
  shadow.visit = {};
  shadow.stores.push_back({pass.visit.values.empty() ? 0 : pass.visit.values[0], out});
  return elementwise::choose_tile(shadow);
}

void scan(Graph& graph, elementwise::Pass pass, const kernel::ScanOptions& options, const Array& out,
          elementwise::Scheme& scheme, const std::shared_ptr<Checkpoint>& checkpoint) {
  pass.tile = tile_with(pass, out);
  const std::size_t axis = options.axis;
  const Columns columns(pass.shape, pass.tile, axis);
  const Array carries = graph.temporary({columns.number * columns.lanes}, out.dtype(), {columns.lanes});
  Stages stages(graph, checkpoint);
  FinishedTiles finished = stages.tiles(out, pass.tile);
  Progress progress(graph, columns, finished, options.initial);
  pass.visit.extends = static_cast<std::uint64_t>(count(pass.tile) + columns.lanes) * size_of(out.dtype());
  pass.visit.skips = [&](const Box& box) { return progress.skips(box); };
  pass.visit.extend = [&](const Box& box, std::span<const elementwise::VisitedValue> values, TaskSpec& task) {
    finished.offer();  // the tiles before this one
    const Region carry = columns.carry_of(carries, box);
    if (progress.goes_on(box)) take_up(graph, options, out, columns, box, carry);
    auto work = std::make_shared<ScanWork>();
    work->options = options;
    work->options.first = box.start[axis] == 0;
    work->values = {values[0], box};
    const Box to = columns.result_of(box, options.initial);
    work->out = add_access(task, once(write({out, to})));
    const Access access = work->options.first ? write(carry) : update(carry);
    work->carry = add_access(task, columns.ends(box) ? last(access) : again(access));
    work->lanes = columns.lanes_of(box);
    const auto elements = static_cast<double>(count(box.shape));
    task.name = "scan";
    task.cost.flops += elements;
    task.cost.bytes_touched += 3 * elements * static_cast<double>(size_of(out.dtype()));
    task.calls.push_back(call_of<ScanWork>(Kernel::scan, out.dtype(), std::move(work)));
    finished.finish(to);
  };
  elementwise::run(graph, pass, scheme);
}

void difference(Graph& graph, const elementwise::Operand& a, std::size_t axis, int times, const Array& out,
                const std::shared_ptr<Checkpoint>& checkpoint) {
  if (count(out.shape()) == 0) return;
  elementwise::Pass pass;
  const int value = pass.program.input(a.array.dtype());
  pass.operands = {a};
  pass.shape = a.transpose ? elementwise::reversed(a.array.shape()) : a.array.shape();
  pass.start.assign(pass.shape.size(), 0);
  pass.visit.values = {value};
  Shape tile = tile_with(pass, out);
  const Index extent = pass.shape[axis];
  tile[axis] = std::min(extent, ceil_div(std::max<Index>(tile[axis], times), tile[axis]) * tile[axis]);
  graph.trust_order(true);
  Stages stages(graph, checkpoint);
  FinishedTiles finished = stages.tiles(out, tile);
  const auto item = static_cast<double>(size_of(out.dtype()));
  for_each_box(whole(out.shape()), tile, order_along(axis, tile.size()), [&](const Box& box) {
    if (finished.holds(box)) return;
    auto work = std::make_shared<DifferenceWork>();
    work->times = times, work->axis = axis, work->transposed = a.transpose;
    Box own = box;
    own.shape[axis] = std::min(tile[axis], extent - box.start[axis]);
    TaskSpec task;
    task.name = "difference";
    task.accesses = {read({a.array, elementwise::box_of(a, own)})};
    const Index end = own.start[axis] + own.shape[axis];
    work->next = box.start[axis] + box.shape[axis] + times > end;
    if (work->next) {
      Box after = own;
      after.start[axis] = end, after.shape[axis] = std::min(tile[axis], extent - end);
      task.accesses.push_back(read({a.array, elementwise::box_of(a, after)}));
    }
    task.accesses.push_back(once(write({out, box})));
    if (times > 1) task.accesses.push_back(scratch(kernel::difference_work_bytes(times, axis, box.shape, out.dtype())));
    const auto elements = static_cast<double>(count(box.shape));
    task.cost = {.flops = elements * times, .bytes_touched = 2.0 * elements * item * times, .float64 = true};
    task.calls = {call_of<DifferenceWork>(Kernel::difference, out.dtype(), std::move(work))};
    graph.add(std::move(task));
    finished.finish(box);
    finished.offer();
  });
}

}  // namespace flagstone::along
