#include "flagstone/algorithms/sparse/folds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/two_sum.hpp"

namespace flagstone::sparse {
namespace {

constexpr double seconds_per_value = 1.5e-9;  // measured: random writes of a column's two words

double nothing(Fold fold) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return fold == Fold::min ? infinity : fold == Fold::max ? -infinity : 0;
}

/// NaN stays, whichever of the two it is.
template <Fold fold>
double better(double a, double b) {
  if (a != a || b != b) return a != a ? a : b;
  return (fold == Fold::min ? b < a : b > a) ? b : a;
}

template <Fold fold>
void take(double value, double& first, double& second) {
  if constexpr (fold == Fold::sum) {
    add_to(first, second, value);
  } else if constexpr (fold == Fold::moments) {
    first += value, second += value * value;
  } else if constexpr (fold == Fold::counts) {
    first += value, second = value < second ? value : second;
  } else if constexpr (fold == Fold::nonzero) {
    first += value != 0 ? 1 : 0, second += 1;
  } else {
    first = better<fold>(first, value), second += 1;
  }
}

double join(Fold fold, double a, double b) {
  if (fold == Fold::min) return better<Fold::min>(a, b);
  return fold == Fold::max ? better<Fold::max>(a, b) : a + b;
}
double join_second(Fold fold, double a, double b) { return fold == Fold::counts ? std::min(a, b) : a + b; }

/// Calls f(row, column, value) for all of some rows.
template <class Real, class Column, class F>
void each_value(const kernel::CsrRows& rows, F f) {
  const auto* values = reinterpret_cast<const Real*>(rows.values);
  const auto* columns = reinterpret_cast<const Column*>(rows.columns);
  for (Index i = 0; i < rows.rows; ++i)
    for (Index p = rows.pointers[i] - rows.pointers[0]; p < rows.pointers[i + 1] - rows.pointers[0]; ++p)
      f(i, static_cast<Index>(columns[p]), static_cast<double>(values[p]));
}

template <class Real, class F>
void visit_columns(const kernel::CsrRows& rows, F f) {
  switch (rows.column_dtype) {
    case Dtype::uint16:
      return each_value<Real, std::uint16_t>(rows, f);
    case Dtype::uint32:
      return each_value<Real, std::uint32_t>(rows, f);
    default:
      return each_value<Real, std::uint64_t>(rows, f);
  }
}

template <class F>
void visit_values(Dtype real, const kernel::CsrRows& rows, F f) {
  real == Dtype::float32 ? visit_columns<float>(rows, f) : visit_columns<double>(rows, f);
}

/// Word `at(row, column)` and the one `apart` further on take every value.
template <class At>
void fold_values(Fold which, Dtype real, const kernel::CsrRows& rows, Index apart, At at) {
  const auto with = [&](auto fold) {
    visit_values(real, rows, [&](Index row, Index column, double value) {
      double* word = at(row, column);
      take<decltype(fold)::value>(value, word[0], word[apart]);
    });
  };
  switch (which) {
    case Fold::sum:
      return with(std::integral_constant<Fold, Fold::sum>{});
    case Fold::min:
      return with(std::integral_constant<Fold, Fold::min>{});
    case Fold::max:
      return with(std::integral_constant<Fold, Fold::max>{});
    case Fold::nonzero:
      return with(std::integral_constant<Fold, Fold::nonzero>{});
    case Fold::moments:
      return with(std::integral_constant<Fold, Fold::moments>{});
    case Fold::counts:
      return with(std::integral_constant<Fold, Fold::counts>{});
  }
}

/// `sums` := those of whole rows, which nothing is joined to.
void sum_rows(Dtype real, const kernel::CsrRows& rows, double* sums) {
  const auto with = [&](const auto* values) {
    for (Index i = 0; i < rows.rows; ++i) {
      double high = 0, low = 0;
      for (Index p = rows.pointers[i] - rows.pointers[0]; p < rows.pointers[i + 1] - rows.pointers[0]; ++p)
        add_to(high, low, static_cast<double>(values[p]));
      sums[i] = std::isfinite(high) ? high + low : high;
    }
  };
  real == Dtype::float32 ? with(reinterpret_cast<const float*>(rows.values))
                         : with(reinterpret_cast<const double*>(rows.values));
}

enum class Along : std::uint8_t { columns, rows };

/// One panel folded, as the value of a call; its operands are the words, which it overwrites, and scratch.
struct PanelFold final : CallValue {
  PanelFold(const CsrOperand& a, Index panel, const FoldOptions& options, Along along)
      : reader(a, a.panels[static_cast<std::size_t>(panel)], options.real, false),
        fold(options.fold),
        along(along),
        columns(a.matrix.cols) {}

  void run(std::span<const Tile> tiles, const Tile& out, std::byte* scratch) const;

  PanelReader reader;
  Fold fold;
  Along along;
  Index columns;
};

void PanelFold::run(std::span<const Tile> tiles, const Tile& out, std::byte* scratch) const {
  auto* words = out.as<double>();
  if (along == Along::columns) {  // all first words, then all second ones
    std::fill_n(words, columns, nothing(fold));
    std::fill_n(words + columns, columns, 0.0);
    reader.stream(tiles, scratch, [&](Index, const kernel::CsrRows& rows) {
      fold_values(fold, reader.real(), rows, columns, [&](Index, Index column) { return words + column; });
    });
  } else if (fold == Fold::sum) {
    std::fill_n(words, reader.rows(), 0.0);
    reader.stream(tiles, scratch,
                  [&](Index first, const kernel::CsrRows& rows) { sum_rows(reader.real(), rows, words + first); });
  } else {
    for (Index i = 0; i < reader.rows(); ++i) words[2 * i] = nothing(fold), words[2 * i + 1] = 0;
    reader.stream(tiles, scratch, [&](Index first, const kernel::CsrRows& rows) {
      fold_values(fold, reader.real(), rows, 1, [&](Index row, Index) { return words + 2 * (first + row); });
    });
  }
}

void run_fold(const Call& call, std::span<const Tile> tiles) {
  const Tile out = operand(call, 0, tiles), scratch = operand(call, 1, tiles);
  call.value_as<PanelFold>().run(tiles, out, scratch.data);
}

struct Joined final : CallValue {
  Fold fold = Fold::min;
};

void run_join(const Call& call, std::span<const Tile> tiles) {
  const Fold fold = call.value_as<Joined>().fold;
  const Tile source = operand(call, 0, tiles), target = operand(call, 1, tiles);
  const Index n = count(source.shape) / 2;
  const auto* from = source.as<const double>();
  auto* to = target.as<double>();
  if (fold == Fold::sum) {
    for (Index j = 0; j < n; ++j) add_to(to[j], to[n + j], from[j]), to[n + j] += from[n + j];
    return;
  }
  for (Index j = 0; j < n; ++j)
    to[j] = join(fold, to[j], from[j]), to[n + j] = join_second(fold, to[n + j], from[n + j]);
}

const bool entered = host_kernels().enter(Kernel::csr_fold, {Dtype::float32, Dtype::float64}, run_fold) &&
                     host_kernels().enter(Kernel::csr_fold_join, {Dtype::float64}, run_join);

/// One task for a panel: reads it and writes `out`.
void add_panel(Graph& graph, const CsrOperand& a, Index panel, const FoldOptions& options, Along along, Access out) {
  auto value = std::make_shared<PanelFold>(a, panel, options, along);
  PanelReader& reader = value->reader;
  TaskSpec task;
  task.name = "csr_fold";
  reader.access(task.accesses);
  const auto at = static_cast<std::uint32_t>(task.accesses.size());
  task.accesses.push_back(std::move(out));
  task.accesses.push_back(scratch(reader.scratch_bytes()));
  const double seconds = reader.convert_seconds() + static_cast<double>(reader.nnz()) * seconds_per_value;
  const double each = options.fold == Fold::sum       ? 7
                      : options.fold == Fold::moments ? 3
                      : options.fold == Fold::counts  ? 1
                                                      : 0;
  task.cost = {each * static_cast<double>(reader.nnz()), seconds * reference_bytes_per_second, true,
               reader.decoded_bytes()};
  Call& call = task.calls.emplace_back(Kernel::csr_fold, options.real,
                                       std::initializer_list<TilePart>{TilePart{at}, TilePart{at + 1}});
  call.flops = task.cost.flops;
  call.value = std::move(value);
  graph.add(std::move(task));
}

void check(const Array& out, const Shape& shape) {
  if (out.shape() != shape || out.dtype() != Dtype::float64 || !out.in_memory())
    throw ShapeError("csr_fold: the result is " + to_string(out.shape()) + " " + std::string(name_of(out.dtype())) +
                     "; " + to_string(shape) + " float64 in memory is needed.");
}

}  // namespace

void fold_columns(Graph& graph, const CsrOperand& a, const FoldOptions& options, const Array& out) {
  const Index n = a.matrix.cols, panels = static_cast<Index>(a.panels.size());
  check(out, {2, n});
  TaskSpec first;
  first.name = "csr_fold_clear";
  first.accesses = {write({out, whole(out.shape())})};
  first.calls = {call::fill(Dtype::float64, nothing(options.fold), {0, false, false, {{0, 0}, {1, n}}}),
                 call::fill(Dtype::float64, 0, {0, false, false, {{1, 0}, {1, n}}})};
  if (n == 0) return;
  graph.add(std::move(first));
  if (panels == 0) return;
  const Array partials = graph.temporary({panels * 2 * n}, Dtype::float64, {2 * n});
  auto joined = std::make_shared<Joined>();
  joined->fold = options.fold;
  for (Index p = 0; p < panels; ++p) {
    const Region mine{partials, {{p * 2 * n}, {2 * n}}};
    add_panel(graph, a, p, options, Along::columns, again(write(mine)));
    TaskSpec merge;
    merge.name = "csr_fold_join";
    merge.accesses = {last(read(mine)), update({out, whole(out.shape())})};
    merge.calls = {Call(Kernel::csr_fold_join, Dtype::float64, {TilePart{0}, TilePart{1}})};
    merge.calls[0].value = joined;
    merge.cost.bytes_touched = 48.0 * static_cast<double>(n);
    merge.priority = 1;  // frees a tile
    graph.add(std::move(merge));
  }
}

void fold_rows(Graph& graph, const CsrOperand& a, const FoldOptions& options, const Array& out) {
  const Index words = options.fold == Fold::sum ? 1 : 2;
  check(out, {a.matrix.rows, words});
  for (Index p = 0; p < static_cast<Index>(a.panels.size()); ++p) {
    const PanelReader panel(a, a.panels[static_cast<std::size_t>(p)], options.real, false);
    const Region mine{out, {{panel.row(), 0}, {panel.rows(), words}}};
    add_panel(graph, a, p, options, Along::rows, write(mine));
  }
}

}  // namespace flagstone::sparse
