#include "flagstone/kernel/sort/select.hpp"

#include <algorithm>

namespace flagstone::kernel {
namespace {

/// The first place in the window whose record is not before the pivot; `equal_too`: those equal to it are.
Index part(const RecordOrder& order, const RunWindow& run, const std::byte* pivot, bool equal_too) {
  Index low = run.low, high = run.high;
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    const std::byte* record = run.at(middle, order.width());
    if (equal_too ? !order.less(pivot, record) : order.less(record, pivot))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/// The run whose middle record parts the places that are left about evenly: the weighted median of middles.
std::size_t pivot_run(const RecordOrder& order, const std::vector<RunWindow>& runs) {
  std::vector<std::size_t> open;
  Index places = 0;
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (runs[r].low < runs[r].high) open.push_back(r), places += runs[r].high - runs[r].low;
  const auto middle = [&](std::size_t r) {
    return runs[r].at(runs[r].low + (runs[r].high - runs[r].low) / 2, order.width());
  };
  // A heap sort: it never leaves its range, whatever the order says.
  std::make_heap(open.begin(), open.end(), [&](auto a, auto b) { return order.less(middle(a), middle(b)); });
  Index above = 0;
  while (open.size() > 1) {
    const std::size_t top = open.front();
    above += runs[top].high - runs[top].low;
    if (2 * above >= places) return top;
    std::pop_heap(open.begin(), open.end(), [&](auto a, auto b) { return order.less(middle(a), middle(b)); });
    open.pop_back();
  }
  return open.front();
}

}  // namespace

void part_runs(const RecordOrder& order, std::vector<RunWindow>& runs, Index rank) {
  const auto open = [](const RunWindow& run) { return run.low < run.high; };
  std::vector<Index> places(runs.size());
  while (std::any_of(runs.begin(), runs.end(), open)) {
    const std::size_t p = pivot_run(order, runs);
    const Index at = runs[p].low + (runs[p].high - runs[p].low) / 2;
    const std::byte* pivot = runs[p].at(at, order.width());
    Index sum = 0;
    for (std::size_t r = 0; r < runs.size(); ++r)
      sum += places[r] = r == p ? at + 1 : open(runs[r]) ? part(order, runs[r], pivot, r < p) : runs[r].low;
    if (sum <= rank) {
      for (std::size_t r = 0; r < runs.size(); ++r) runs[r].low = places[r];
    } else {
      places[p] = at;
      for (std::size_t r = 0; r < runs.size(); ++r) runs[r].high = places[r];
    }
  }
}

}  // namespace flagstone::kernel
