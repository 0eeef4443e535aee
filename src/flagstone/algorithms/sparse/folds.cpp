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

/// One panel folded in one or several ways, as the value of a call: which of the task's tiles each writes, and scratch.
struct PanelFold final : CallValue {
  struct One {
    Fold fold;
    bool rows;
    std::size_t tile;
  };

  PanelFold(const CsrOperand& a, const CsrPanelRange& panel, Dtype real)
      : reader(a, panel, real, false), columns(a.matrix.cols) {}

  void clear(const One& one, double* words) const;
  void take(const One& one, Index first, const kernel::CsrRows& rows, double* words) const;

  PanelReader reader;
  Index columns;
  std::vector<One> folds;
  std::size_t scratch = 0;
};

void PanelFold::clear(const One& one, double* words) const {
  if (!one.rows) {  // all first words, then all second ones
    std::fill_n(words, columns, nothing(one.fold));
    std::fill_n(words + columns, columns, 0.0);
  } else if (one.fold == Fold::sum) {
    std::fill_n(words, reader.rows(), 0.0);
  } else {
    for (Index i = 0; i < reader.rows(); ++i) words[2 * i] = nothing(one.fold), words[2 * i + 1] = 0;
  }
}

void PanelFold::take(const One& one, Index first, const kernel::CsrRows& rows, double* words) const {
  if (!one.rows)
    fold_values(one.fold, reader.real(), rows, columns, [&](Index, Index column) { return words + column; });
  else if (one.fold == Fold::sum)
    sum_rows(reader.real(), rows, words + first);
  else
    fold_values(one.fold, reader.real(), rows, 1, [&](Index row, Index) { return words + 2 * (first + row); });
}

void run_fold(const Call& call, std::span<const Tile> tiles) {
  const auto& panel = call.value_as<PanelFold>();
  for (const auto& one : panel.folds) panel.clear(one, tiles[one.tile].as<double>());
  panel.reader.stream(tiles, tiles[panel.scratch].data, [&](Index first, const kernel::CsrRows& rows) {
    for (const auto& one : panel.folds) panel.take(one, first, rows, tiles[one.tile].as<double>());
  });
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

double flops_per_value(const FoldRequest& one) {
  if (one.tree) return 4;  // a task's sums are added to others'
  return one.fold == Fold::sum ? 7 : one.fold == Fold::moments ? 3 : one.fold == Fold::counts ? 1 : 0;
}

/// The panels' words of one fold of columns, until they are joined.
struct Partials {
  Array words;
  std::shared_ptr<Joined> joined;
};

/// One task for a panel: reads it once, and writes what each fold makes of it.
void add_panel(Graph& graph, const CsrOperand& a, Index p, Dtype real, const std::vector<FoldRequest>& folds,
               const std::vector<Partials>& partials) {
  auto value = std::make_shared<PanelFold>(a, a.panels[static_cast<std::size_t>(p)], real);
  PanelReader& reader = value->reader;
  const Index n = a.matrix.cols;
  TaskSpec task;
  task.name = "csr_fold";
  reader.access(task.accesses);
  double seconds = reader.convert_seconds();
  for (std::size_t i = 0; i < folds.size(); ++i) {
    const FoldRequest& one = folds[i];
    value->folds.push_back({one.fold, one.rows, task.accesses.size()});
    if (one.rows)
      task.accesses.push_back(write({one.out, {{reader.row(), 0}, {reader.rows(), one.out.shape()[1]}}}));
    else if (one.tree)
      task.accesses.push_back(reduce({one.out, whole(one.out.shape())}));
    else
      task.accesses.push_back(again(write({partials[i].words, {{p * 2 * n}, {2 * n}}})));
    task.cost.flops += flops_per_value(one) * static_cast<double>(reader.nnz());
    seconds += static_cast<double>(reader.nnz()) * seconds_per_value;
  }
  value->scratch = task.accesses.size();
  task.accesses.push_back(scratch(reader.scratch_bytes()));
  task.cost.bytes_touched = seconds * reference_bytes_per_second;
  task.cost.float64 = true;
  task.cost.bytes_decoded = reader.decoded_bytes();
  Call& call = task.calls.emplace_back(Kernel::csr_fold, real, std::initializer_list<TilePart>{});
  call.flops = task.cost.flops;
  call.value = std::move(value);
  graph.add(std::move(task));
}

/// A panel's words join the result, in program order.
void add_join(Graph& graph, Index p, const FoldRequest& one, const Partials& partials) {
  const Index n = one.out.shape()[1];
  TaskSpec merge;
  merge.name = "csr_fold_join";
  merge.accesses = {last(read({partials.words, {{p * 2 * n}, {2 * n}}})), update({one.out, whole(one.out.shape())})};
  merge.calls = {Call(Kernel::csr_fold_join, Dtype::float64, {TilePart{0}, TilePart{1}})};
  merge.calls[0].value = partials.joined;
  merge.cost.bytes_touched = 48.0 * static_cast<double>(n);
  merge.priority = 1;  // frees a tile
  graph.add(std::move(merge));
}

void add_clear(Graph& graph, const FoldRequest& one) {
  const Index n = one.out.shape()[1];
  TaskSpec first;
  first.name = "csr_fold_clear";
  first.accesses = {write({one.out, whole(one.out.shape())})};
  first.calls = {call::fill(Dtype::float64, nothing(one.fold), {0, false, false, {{0, 0}, {1, n}}}),
                 call::fill(Dtype::float64, 0, {0, false, false, {{1, 0}, {1, n}}})};
  graph.add(std::move(first));
}

void check(const Array& out, const Shape& shape) {
  if (out.shape() != shape || out.dtype() != Dtype::float64 || !out.in_memory())
    throw ShapeError("csr_fold: the result is " + to_string(out.shape()) + " " + std::string(name_of(out.dtype())) +
                     "; " + to_string(shape) + " float64 in memory is needed.");
}

}  // namespace

void fold_several(Graph& graph, const CsrOperand& a, Dtype real, const std::vector<FoldRequest>& folds) {
  const Index n = a.matrix.cols, panels = static_cast<Index>(a.panels.size());
  for (const FoldRequest& one : folds)
    check(one.out, one.rows ? Shape{a.matrix.rows, one.fold == Fold::sum ? 1 : 2} : Shape{2, n});
  if (n == 0) return;
  std::vector<Partials> partials(folds.size());
  for (std::size_t i = 0; i < folds.size(); ++i) {
    if (folds[i].rows) continue;
    add_clear(graph, folds[i]);
    if (panels == 0 || folds[i].tree) continue;
    partials[i] = {graph.temporary({panels * 2 * n}, Dtype::float64, {2 * n}), std::make_shared<Joined>()};
    partials[i].joined->fold = folds[i].fold;
  }
  for (Index p = 0; p < panels; ++p) {
    add_panel(graph, a, p, real, folds, partials);
    for (std::size_t i = 0; i < folds.size(); ++i)
      if (partials[i].joined) add_join(graph, p, folds[i], partials[i]);
  }
}

void fold_columns(Graph& graph, const CsrOperand& a, const FoldOptions& options, const Array& out) {
  fold_several(graph, a, options.real, {{options.fold, false, out}});
}

void fold_rows(Graph& graph, const CsrOperand& a, const FoldOptions& options, const Array& out) {
  fold_several(graph, a, options.real, {{options.fold, true, out}});
}

}  // namespace flagstone::sparse
