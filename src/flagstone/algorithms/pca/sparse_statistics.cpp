#include "flagstone/algorithms/pca/sparse_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "flagstone/algorithms/pca/source.hpp"
#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::spectral {
namespace {

/// bad: row and column of the panel's first NaN or Inf, else -1.
template <class ColumnIndex>
void look_for_bad(const kernel::CsrRows& rows, Index first_row, double* bad) {
  const auto* values = reinterpret_cast<const double*>(rows.values);
  const auto* columns = reinterpret_cast<const ColumnIndex*>(rows.columns);
  for (Index i = 0; i < rows.rows && bad[0] < 0; ++i) {
    double bad_column = -1;
    for (Index p = rows.pointers[i] - rows.pointers[0]; p < rows.pointers[i + 1] - rows.pointers[0]; ++p) {
      const auto at = static_cast<double>(columns[p]);
      if (!std::isfinite(values[p]) && (bad_column < 0 || at < bad_column)) bad_column = at;
    }
    if (bad_column >= 0) bad[0] = static_cast<double>(first_row + i), bad[1] = bad_column;
  }
}

/// One panel looked at, as the value of a call; its operands are the moments, the place of its first bad value,
/// scratch.
struct PanelStatistics final : CallValue {
  PanelStatistics(const sparse::CsrOperand& x, Index panel)
      : reader(x, x.panels[static_cast<std::size_t>(panel)], Dtype::float64, false) {}

  sparse::PanelReader reader;
};

void run_statistics(const Call& call, std::span<const Tile> tiles) {
  const auto& panel = call.value_as<PanelStatistics>();
  const Tile moments = operand(call, 0, tiles), bad = operand(call, 1, tiles), scratch = operand(call, 2, tiles);
  auto *sums = moments.as<double>(), *found = bad.as<double>();
  found[0] = found[1] = -1;
  panel.reader.stream(tiles, scratch.data, [&](Index row, const kernel::CsrRows& rows) {
    const Index first = panel.reader.row() + row;
    kernel::csr_moments(rows, Dtype::float64, sums);
    switch (rows.column_dtype) {
      case Dtype::uint16:
        return look_for_bad<std::uint16_t>(rows, first, found);
      case Dtype::uint32:
        return look_for_bad<std::uint32_t>(rows, first, found);
      default:
        return look_for_bad<std::uint64_t>(rows, first, found);
    }
  });
}

const bool entered = host_kernels().enter(Kernel::csr_statistics, {Dtype::float64}, run_statistics);

void add_panel_task(Graph& graph, const sparse::CsrOperand& x, Index panel, const Array& moments, const Array& bad) {
  auto value = std::make_shared<PanelStatistics>(x, panel);
  sparse::PanelReader& reader = value->reader;
  TaskSpec task;
  task.name = "csr_statistics";
  reader.access(task.accesses);
  const auto at = static_cast<std::uint32_t>(task.accesses.size());
  task.accesses.push_back(reduce({moments, whole(moments.shape())}));
  task.accesses.push_back(write({bad, {{panel, 0}, {1, 2}}}));
  task.accesses.push_back(scratch(reader.scratch_bytes()));
  task.cost = {4.0 * static_cast<double>(reader.nnz()), reader.convert_seconds() * sparse::reference_bytes_per_second,
               true, reader.decoded_bytes()};
  Call& call =
      task.calls.emplace_back(Kernel::csr_statistics, Dtype::float64,
                              std::initializer_list<TilePart>{TilePart{at}, TilePart{at + 1}, TilePart{at + 2}});
  call.flops = task.cost.flops;
  call.value = std::move(value);
  graph.add(std::move(task));
}

}  // namespace

CsrStatistics stream_statistics(Graph& graph, const sparse::CsrOperand& x, Index most) {
  const Index n = x.matrix.cols, panels = std::min(most, static_cast<Index>(x.panels.size()));
  CsrStatistics statistics;
  const Array moments = graph.allocate({2, n}, Dtype::float64);
  const Array bad = graph.allocate({std::max<Index>(1, panels), 2}, Dtype::float64);
  for (Index p = 0; p < panels; ++p) add_panel_task(graph, x, p, moments, bad);
  graph.barrier();
  if (graph.planning()) return statistics;
  const auto* sums = reinterpret_cast<const double*>(moments.store().memory());
  statistics.column_sums.assign(sums, sums + n);
  statistics.column_squares.assign(sums + n, sums + 2 * n);
  statistics.sum_squares = std::accumulate(sums + n, sums + 2 * n, 0.0);
  const auto* found = reinterpret_cast<const double*>(bad.store().memory());
  for (Index p = 0; p < panels && statistics.bad_row < 0; ++p)
    if (found[2 * p] >= 0)
      statistics.bad_row = static_cast<Index>(found[2 * p]),
      statistics.bad_column = static_cast<Index>(found[2 * p + 1]);
  return statistics;
}

void check_finite(const CsrStatistics& statistics) {
  if (statistics.bad_row >= 0)
    throw NumericalError("pca: X has NaN or Inf at row " + std::to_string(statistics.bad_row) + ", column " +
                         std::to_string(statistics.bad_column) +
                         "; finite values are needed, replace or drop them first.");
}

void check_squares(const CsrStatistics& statistics) {
  if (!std::isfinite(statistics.sum_squares))
    throw NumericalError("pca: the squares of X overflow float64; scale X down first.");
  const bool zero = statistics.sum_squares == 0 && std::ranges::all_of(statistics.column_sums, std::logical_not<>());
  if (statistics.sum_squares < least_squares && !zero)
    throw NumericalError("pca: the squares of X underflow float64; scale X up first.");
}

}  // namespace flagstone::spectral
