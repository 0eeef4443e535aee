#pragma once
// A pass over documents: a task a panel, whose call hands decoded rows to a kernel.
#include <memory>
#include <string>
#include <utility>

#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::topics {

/// The elements of an array in memory.
template <class T>
T* elements(const Array& array) {
  return reinterpret_cast<T*>(array.store().memory());
}

/// Of a flop on rows of k weights, gathered word by word: a tenth of what a matrix product reaches.
inline constexpr double seconds_per_gathered_flop = 0.09e-9;

/// What one panel of a pass needs, as the value of a call; `Reader`: sparse::PanelReader, or as that. A pass says
///   static constexpr Kernel which; static constexpr const char* name; static constexpr double seconds;  // a value
///   void rows(std::span<const Tile> tiles, std::byte* own, Index row, const kernel::CsrRows& rows) const;
/// `row`: the first one's number in the panel; `own`: `own_bytes` of scratch.
template <class Reader>
struct PassOver : CallValue {
  explicit PassOver(Reader of) : reader(std::move(of)) {}

  Reader reader;
  std::size_t own_bytes = 0;
  std::vector<Access> accesses;

  /// Returns its place among the tiles.
  int add(Access access) {
    accesses.push_back(std::move(access));
    return static_cast<int>(accesses.size()) - 1;
  }
  int add_read(const Array& array) { return add(read({array, whole(array.shape())})); }
  int add_reduce(const Array& array) { return add(reduce({array, whole(array.shape())})); }
  int add_update(const Array& array) { return add(again(update({array, whole(array.shape())}))); }
  /// The part of an array with a row a document, that belongs to this panel.
  Region own(const Array& array) const {
    Box box = whole(array.shape());
    box.start[0] = reader.row(), box.shape[0] = reader.rows();
    return {array, box};
  }
  std::size_t reader_bytes() const { return align_up(reader.scratch_bytes(), 64); }
};

/// Of a sparse matrix.
struct PanelPass : PassOver<sparse::PanelReader> {
  PanelPass(const sparse::CsrOperand& a, Index panel, Dtype real)
      : PassOver(sparse::PanelReader(a, a.panels[static_cast<std::size_t>(panel)], real, false)) {}
};

template <class Pass>
void run_panel(const Call& call, std::span<const Tile> tiles) {
  const auto& pass = call.value_as<Pass>();
  std::byte* memory = tiles.back().data;
  pass.reader.stream(tiles, memory, [&](Index row, const kernel::CsrRows& rows) {
    pass.rows(tiles, memory + pass.reader_bytes(), row, rows);
  });
}

template <class T>
T* at(std::span<const Tile> tiles, int place) {
  return place < 0 ? nullptr : reinterpret_cast<T*>(tiles[static_cast<std::size_t>(place)].data);
}

/// Adds the task of one panel; `prepare` says what it takes beside its rows, `flops` of a stored value.
template <class Pass, class Prepare>
void add_panel(Graph& graph, std::shared_ptr<Pass> pass, Dtype real, double flops, Prepare&& prepare) {
  pass->reader.access(pass->accesses);
  prepare(*pass);
  TaskSpec task;
  task.name = Pass::name;
  task.accesses = std::exchange(pass->accesses, {});
  task.accesses.push_back(scratch(pass->reader_bytes() + pass->own_bytes));
  const auto nnz = static_cast<double>(pass->reader.nnz());
  const double seconds = pass->reader.convert_seconds() + nnz * (Pass::seconds + flops * seconds_per_gathered_flop);
  task.cost = {nnz * flops, seconds * sparse::reference_bytes_per_second, false, pass->reader.decoded_bytes()};
  task.calls = {Call(Pass::which, real, {TilePart{0}})};
  task.calls[0].flops = task.cost.flops;
  task.calls[0].value = std::move(pass);
  graph.add(std::move(task));
}

/// Adds a pass of all panels of a sparse matrix, likewise.
template <class Pass, class Prepare>
void add_pass(Graph& graph, const sparse::CsrOperand& a, Dtype real, double flops, Prepare&& prepare) {
  for (Index p = 0; std::cmp_less(p, a.panels.size()); ++p)
    add_panel(graph, std::make_shared<Pass>(a, p, real), real, flops, prepare);
  graph.barrier();
}

/// Calls f(row, column, value) for all of some rows, whose values are Real.
template <class Real, class F>
void each_value(const kernel::CsrRows& rows, F&& f) {
  const auto with = [&](auto sample) {
    const auto* values = reinterpret_cast<const Real*>(rows.values);
    const auto* columns = reinterpret_cast<const decltype(sample)*>(rows.columns);
    for (Index i = 0; i < rows.rows; ++i)
      for (Index p = rows.pointers[i] - rows.pointers[0]; p < rows.pointers[i + 1] - rows.pointers[0]; ++p)
        f(i, static_cast<Index>(columns[p]), values[p]);
  };
  if (rows.column_dtype == Dtype::uint16)
    with(std::uint16_t{});
  else if (rows.column_dtype == Dtype::uint32)
    with(std::uint32_t{});
  else
    with(std::uint64_t{});
}

}  // namespace flagstone::topics
