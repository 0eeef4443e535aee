#include "flagstone/algorithms/sort/lines.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/sort/external.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::sort {
namespace {

constexpr std::uint64_t box_bytes = 4 * MiB;

/// All of the axis, stored units of the result in the other dimensions.
Shape unit_of(const LineJob& job) {
  const Array& to = job.to;
  const bool any = to.in_memory() || takes_any_box(to);
  Shape unit = any ? Shape(to.ndim(), 1) : to.chunks();
  unit[job.axis] = to.shape()[job.axis];
  return unit;
}

/// Units, the last dimensions first, up to some MiB.
Shape box_of(const LineJob& job) {
  Shape box = unit_of(job);
  std::uint64_t bytes = static_cast<std::uint64_t>(count(box)) * job.order->width();
  for (std::size_t d = box.size(); d-- > 0;) {
    if (d == job.axis) continue;
    const Index units = ceil_div(job.to.shape()[d], box[d]);
    const Index times = std::clamp<Index>(static_cast<Index>(box_bytes / std::max<std::uint64_t>(1, bytes)), 1, units);
    box[d] *= times, bytes *= static_cast<std::uint64_t>(times);
    if (times < units) break;
  }
  return box;
}

/// One line after the other: gathered, sorted, put where it belongs.
void sort_lines(const LineJob& job, const Tile& from, const Tile& to, std::byte* memory) {
  const Index n = from.shape[job.axis], step = from.strides[job.axis], to_step = to.strides[job.axis];
  const std::size_t item = size_of(from.dtype), width = job.order->width(), kept = size_of(to.dtype);
  const std::size_t offset = job.places ? item : 0;
  Shape lines = from.shape, at(lines.size(), 0);
  lines[job.axis] = 1;
  std::byte* work = memory + align_up(static_cast<std::uint64_t>(n) * width, 64);
  do {
    const std::byte* source = from.data;
    std::byte* target = to.data;
    for (std::size_t d = 0; d < at.size(); ++d) source += at[d] * from.strides[d], target += at[d] * to.strides[d];
    std::byte* record = memory;
    for (std::int64_t i = 0; i < n; ++i, record += width) {
      std::memcpy(record, source + i * step, item);
      if (job.places) std::memcpy(record + item, &i, sizeof i);
    }
    const std::byte* sorted = job.order->sort(memory, n, work) + offset;
    for (Index i = 0; i < n; ++i, sorted += width) std::memcpy(target + i * to_step, sorted, kept);
  } while (advance(at, lines));
}

}  // namespace

std::uint64_t least_bytes(const LineJob& job) {
  const Index n = job.from.shape()[job.axis];
  const auto elements = static_cast<std::uint64_t>(count(unit_of(job)));
  const auto line = static_cast<std::uint64_t>(n) * job.order->width() + job.order->work_bytes(n);
  return elements * (size_of(job.from.dtype()) + size_of(job.to.dtype())) + line;
}

void run(Graph& graph, const LineJob& job) {
  if (count(job.to.shape()) == 0) return;
  graph.trust_order(true);
  const Index n = job.from.shape()[job.axis];
  const std::uint64_t memory =
      align_up(static_cast<std::uint64_t>(n) * job.order->width(), 64) + job.order->work_bytes(n);
  std::vector<std::size_t> order(job.to.ndim());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  const auto shared = std::make_shared<const LineJob>(job);
  Stages stages(graph, job.checkpoint);
  std::optional<FinishedTiles> finished;
  if (!job.to.in_memory()) finished.emplace(stages, job.to, box_of(job));
  for_each_box(whole(job.to.shape()), box_of(job), order, [&](const Box& box) {
    if (finished && finished->holds(box)) return;
    TaskSpec task;
    task.name = "sort_lines";
    task.accesses = {read({job.from, box}), once(write({job.to, box})), scratch(memory)};
    const auto elements = static_cast<double>(count(box.shape));
    task.cost.bytes_touched = sort_bytes * elements * static_cast<double>(job.order->width());
    task.body = [shared](std::span<const Tile> tiles) { sort_lines(*shared, tiles[0], tiles[1], tiles[2].data); };
    graph.add(std::move(task));
    if (finished) finished->finish(box), finished->offer();
  });
  graph.trust_order(false);
  graph.barrier();
}

}  // namespace flagstone::sort
