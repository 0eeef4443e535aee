#include "flagstone/algorithms/sparse/gathered_rows.hpp"

#include <algorithm>

#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::sparse {

bool writes_whole_chunks(const CsrOperand& a, const Array& y) {
  if (y.in_memory() || !a.rows) return true;
  const Index height = y.chunks()[0];
  return std::ranges::all_of(a.panels, [&](const CsrPanelRange& panel) {
    const Index row = a.rows->before(panel.row), end = a.rows->before(panel.row_end);
    return row % height == 0 && end == std::min(row + height, y.shape()[0]);
  });
}

GatheredRows::GatheredRows(Graph& graph, const CsrOperand& a, const Array& y) : graph_(graph), y_(y) {
  for (const CsrPanelRange& panel : a.panels) longest_ = std::max(longest_, a.rows->count_in(panel.row, panel.row_end));
  const Index panels = static_cast<Index>(a.panels.size()), width = y.shape()[1];
  panels_ = graph.temporary({panels * longest_, width}, y.dtype(), {longest_, width});
}

Region GatheredRows::next() const { return {panels_, {{panel_ * longest_, 0}, {longest_, y_.shape()[1]}}}; }

void GatheredRows::add(Index row, Index rows) {
  const Region from = next();
  const Index height = y_.chunks()[0], width = y_.shape()[1], end = row + rows;
  for (Index chunk = row / height * height; chunk < end; chunk += height) {
    const Index chunk_end = std::min(chunk + height, y_.shape()[0]);
    const Index low = std::max(row, chunk), high = std::min(end, chunk_end);
    const Region to{y_, {{chunk, 0}, {chunk_end - chunk, width}}};
    const Access into = low == chunk ? write(to) : update(to);
    TaskSpec task;
    task.name = "gather_rows";
    task.accesses = {high == end ? last(read(from)) : read(from), high == chunk_end ? into : again(into)};
    task.calls = {call::copy(y_.dtype(), {0, false, false, {{low - row, 0}, {high - low, width}}},
                             {1, false, false, {{low - chunk, 0}, {high - low, width}}})};
    task.cost.bytes_touched =
        2.0 * static_cast<double>((high - low) * width) * static_cast<double>(size_of(y_.dtype()));
    task.priority = 1;  // frees a tile
    graph_.add(std::move(task));
  }
  ++panel_;
}

}  // namespace flagstone::sparse
