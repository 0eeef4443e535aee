#include "flagstone/algorithms/linalg/kept_operand.hpp"

#include <algorithm>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::linalg {
namespace {

// Rates that weigh computing again against bytes of scratch; never arithmetic. Operations on elements of a few blocks
// in the cache, by one worker.
constexpr double disk_bytes_per_second = 1.5e9, operations_per_second = 1e9;

bool is_computed(const Array& array) {
  return !array.in_memory() && (!array.store().operands().empty() || array.store().computed_anew()) &&
         count(array.shape()) > 0;
}

/// Whether one write, and reading what was written, costs less than reading and computing again `times` - 1 times.
bool worth_keeping(const Array& array, Index times, int workers) {
  if (array.store().computed_anew()) return false;
  const Transfer one = array.store().read({Shape(array.ndim(), 0), Shape(array.ndim(), 1)});
  const auto elements = static_cast<double>(count(array.shape())), bytes = static_cast<double>(array.nbytes());
  const double once = static_cast<double>(array.store().pass_bytes()) / disk_bytes_per_second +
                      one.flops * elements / (operations_per_second * workers);
  return static_cast<double>(times - 1) * (once - bytes / disk_bytes_per_second) > bytes / disk_bytes_per_second;
}

}  // namespace

KeptOperand::KeptOperand(Graph& graph, const Operand& given, const Shape& box, Index times)
    : graph_(graph), given_(given), used_(given), times_(times) {
  if (times < 2 || !is_computed(given.array) || !worth_keeping(given.array, times, graph.workers())) return;
  Shape tile = box;
  for (std::size_t d = 0; d < tile.size(); ++d) tile[d] = std::min(tile[d], given.array.shape()[d]);
  used_.array = graph.temporary(given.array.shape(), given.array.dtype(), tile);
}

void KeptOperand::need(const Region& region) {
  if (!kept() || !computed_.insert(region.box.start).second) return;
  TaskSpec task;
  task.name = "compute operand";
  task.accesses = {read({given_.array, region.box}), write(region)};
  task.cost.bytes_touched = 2.0 * static_cast<double>(count(region.box.shape)) * size_of(given_.array.dtype());
  task.calls.push_back(call::copy(given_.array.dtype(), {0}, {1}));
  graph_.add(std::move(task));
}

std::string KeptOperand::note() const {
  if (times_ < 2 || !is_computed(given_.array)) return {};
  const std::string often = std::to_string(times_) + " times";
  if (kept()) return "computed once and kept in scratch (" + format_bytes(scratch_bytes()) + "), not " + often;
  return "computed " + often + (given_.array.store().computed_anew() ? "" : ", which costs less than storing it");
}

}  // namespace flagstone::linalg
