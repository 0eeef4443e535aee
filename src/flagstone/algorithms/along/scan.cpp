#include "flagstone/algorithms/along/scan.hpp"

#include <algorithm>

#include "flagstone/algorithms/along/work.hpp"
#include "flagstone/algorithms/elementwise/operand.hpp"
#include "flagstone/algorithms/elementwise/tile.hpp"
#include "flagstone/base/grid.hpp"

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

}  // namespace

Shape tile_with(const elementwise::Pass& pass, const Array& out) {
  elementwise::Pass shadow = pass;
  shadow.visit = {};
  shadow.stores.push_back({pass.visit.values.empty() ? 0 : pass.visit.values[0], out});
  return elementwise::choose_tile(shadow);
}

void scan(Graph& graph, elementwise::Pass pass, const kernel::ScanOptions& options, const Array& out,
          elementwise::Scheme& scheme) {
  pass.tile = tile_with(pass, out);
  const Shape grid = grid_of(pass.shape, pass.tile);
  const std::size_t axis = options.axis;
  Index lanes = 1, columns = 1;
  for (std::size_t d = 0; d < grid.size(); ++d)
    if (d != axis) lanes *= pass.tile[d], columns *= grid[d];
  const Array carries = graph.temporary({columns * lanes}, out.dtype(), {lanes});
  const Index extent = pass.shape[axis];
  pass.visit.extends = static_cast<std::uint64_t>(count(pass.tile) + lanes) * size_of(out.dtype());
  pass.visit.extend = [=, tile = pass.tile](const Box& box, std::span<const elementwise::VisitedValue> values,
                                            TaskSpec& task) {
    auto work = std::make_shared<ScanWork>();
    work->options = options;
    work->options.first = box.start[axis] == 0;
    work->values = {values[0], box};
    const bool end = box.start[axis] + box.shape[axis] == extent;
    Box to = box;
    if (options.initial && end) ++to.shape[axis];
    work->out = add_access(task, once(write({out, to})));
    Index column = 0;
    for (std::size_t d = 0; d < tile.size(); ++d)
      if (d != axis) column = column * grid[d] + box.start[d] / tile[d];
    const Region carry{carries, {{column * lanes}, {lanes}}};
    const Access access = work->options.first ? write(carry) : update(carry);
    work->carry = add_access(task, end ? last(access) : again(access));
    work->lanes = box.shape;
    work->lanes[axis] = 1;
    const auto elements = static_cast<double>(count(box.shape));
    task.name = "scan";
    task.cost.flops += elements;
    task.cost.bytes_touched += 3 * elements * static_cast<double>(size_of(out.dtype()));
    task.calls.push_back(call_of<ScanWork>(Kernel::scan, out.dtype(), std::move(work)));
  };
  elementwise::run(graph, pass, scheme);
}

void difference(Graph& graph, const elementwise::Operand& a, std::size_t axis, int times, const Array& out) {
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
  const auto item = static_cast<double>(size_of(out.dtype()));
  for_each_box(whole(out.shape()), tile, order_along(axis, tile.size()), [&](const Box& box) {
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
  });
}

}  // namespace flagstone::along
