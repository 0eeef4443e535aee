#include "flagstone/algorithms/elementwise/box_cost.hpp"

#include <algorithm>

#include "flagstone/algorithms/elementwise/operand.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/runtime/scheduler/cache.hpp"

namespace flagstone::elementwise {

std::vector<Box> sample_tiles(const Pass& pass, const Shape& tile) {
  std::vector<Box> boxes;
  for (const int third : {0, 1, 2}) {
    Box box{pass.start, tile};
    for (std::size_t d = 0; d < tile.size(); ++d) {
      box.shape[d] = std::min(tile[d], pass.shape[d]);
      box.start[d] += std::max<Index>(0, pass.shape[d] / tile[d] - 1) * third / 2 * tile[d];
    }
    boxes.push_back(std::move(box));
  }
  return boxes;
}

BoxCost cost_of_boxes(const Pass& pass, const Operand& operand, const std::vector<Box>& samples, double tiles) {
  BoxCost found;
  if (operand.array.in_memory() || broadcast(operand, pass)) {
    found.held = operand.array.in_memory() ? 0 : bytes_of(operand.array.shape(), size_of(operand.array.dtype()));
    return found;
  }
  found.fixed = false;
  const std::size_t item = size_of(operand.array.dtype());
  const ArrayStore& store = operand.array.store();
  double seen = 0;
  for (const Box& box : samples) {
    const Box part = box_of(operand, box);
    const Transfer transfer = store.read(part);
    double moved = static_cast<double>(transfer.bytes());
    found.bytes += moved;
    if (store.unpack_bytes() > 0) {  // packed chunks are unpacked whole
      double unpacked = static_cast<double>(item);
      for (std::size_t d = 0; d < part.start.size(); ++d) {
        const Index chunk = operand.array.chunks()[d];
        unpacked *=
            static_cast<double>((ceil_div(part.start[d] + part.shape[d], chunk) - part.start[d] / chunk) * chunk);
      }
      moved = transfer.segments.empty() ? moved : std::max(moved, unpacked);
    }
    found.cost += moved + request_bytes * static_cast<double>(transfer.segments.size());
    found.buffer = std::max<std::uint64_t>(found.buffer, transfer.buffer_bytes);
    found.held =
        std::max<std::uint64_t>(found.held, charged(size_class(transfer.buffer_bytes)) + transfer.beside_bytes());
    seen += static_cast<double>(bytes_of(part.shape, item));
    found.run = store.run_bytes(part.shape);
  }
  found.least = (seen / 3 + request_bytes) * tiles;
  found.fixed = operand.array.nbytes() < most_piece;
  found.content = seen / 3 * tiles, found.cost *= tiles / 3, found.bytes *= tiles / 3;
  return found;
}

std::uint64_t made_by_task(const Pass& pass, const Shape& tile) {
  std::uint64_t task = kernel::evaluate_scratch(pass.program) + pass.visit.scratch + pass.visit.extends;
  Box first{Shape(tile.size(), 0), tile};
  for (std::size_t d = 0; d < tile.size(); ++d) first.shape[d] = std::min(tile[d], pass.shape[d]);
  for (const Store& store : pass.stores)
    task += charged(align_up(bytes_of(tile, size_of(store.array.dtype())))) +
            (store.array.in_memory() ? 0 : store.array.store().write_staging(first));
  for (const int value : pass.visit.values)
    task += charged(align_up(bytes_of(tile, size_of(pass.program.dtype(value)))));
  for (const Reduction& reduction : pass.reductions) {
    Index results = 8 * kernel::accumulator_words(reduction.fold, pass.program.dtype(reduction.value));
    for (std::size_t d = 0; d < tile.size(); ++d)
      if (!reduction.reduced[d]) results *= tile[d];
    task += 2 * align_up(static_cast<std::uint64_t>(results));
  }
  return task;
}

}  // namespace flagstone::elementwise
