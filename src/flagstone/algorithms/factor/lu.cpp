#include "flagstone/algorithms/factor/lu.hpp"

#include <algorithm>
#include <optional>

#include "flagstone/algorithms/factor/lu_progress.hpp"
#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/factor/getrf.hpp"

namespace flagstone::linalg {
namespace {

Box rows_of(Index first, Index last, Index width) { return {{first, 0}, {last - first, width}}; }

MatrixTile whole_tile(const Region& region) { return {region, whole(region.box.shape), {}}; }

/// A box of op(X), as a task reads it.
MatrixTile piece(const Operand& x, Box box) {
  if (x.transpose) std::swap(box.start[0], box.start[1]), std::swap(box.shape[0], box.shape[1]);
  return {{x.array, box}, whole(box.shape), {x.transpose, x.conjugate}};
}

Region pivots_of(const Array& pivots, const LuColumns& factor, Index k) {
  return {pivots, {{factor.first(k)}, {factor.width(k)}}};
}

/// Calls of one task, its accesses and its flops.
struct Panel {
  explicit Panel(const char* name, Dtype dtype) : dtype(dtype) { task.name = name; }
  std::uint32_t touch(Access access) {
    task.accesses.push_back(std::move(access));
    return static_cast<std::uint32_t>(task.accesses.size() - 1);
  }
  void call(Call made, double flops) {
    made.flops = is_complex(dtype) ? 4 * flops : flops;
    task.cost.flops += made.flops;
    task.calls.push_back(std::move(made));
  }
  /// C -= A B for parts of tiles, where there is anything of C.
  void subtract(const TilePart& a, const TilePart& b, const TilePart& c) {
    const double m = static_cast<double>(c.part.shape[0]), n = static_cast<double>(c.part.shape[1]);
    if (m > 0)
      call(call::flushed(call::gemm(dtype, -1.0, a, b, 1.0, c)), 2.0 * m * n * static_cast<double>(b.part.shape[0]));
  }
  void solve(Uplo uplo, bool unit, TilePart a, TilePart b, call::Place place = {}, std::optional<TilePart> to = {}) {
    const double order = static_cast<double>(b.part.shape[0]), n = static_cast<double>(b.part.shape[1]);
    call(call::trsm(dtype, Side::left, uplo, unit, 1.0, std::move(a), std::move(b), std::move(place), std::move(to)),
         order * order * n);
  }
  void add(Graph& graph) {
    task.cost.float64 = real_part_of(dtype) == Dtype::float64;
    graph.add(std::move(task));
  }

  Dtype dtype;
  TaskSpec task;
};

/// What panel k does to the column of tiles j > k: its exchanges, U(k, j), and what L(:, k) takes from the rest.
void apply_panel(Graph& graph, const LuColumns& f, const Array& pivots, Index k, Index j) {
  const Index first = f.first(k), split = f.split(j), w = f.width(k), m = f.rows(), width = f.width(j);
  Panel task("apply_panel", f.lower(k).array.dtype());
  const auto exchanges = task.touch(read(pivots_of(pivots, f, k))), panel = task.touch(read(f.lower(k)));
  const bool more = k + 1 < std::min(j, f.panels());  // panels that change this column too
  const auto changed = [](Access access, bool again) { return again ? flagstone::again(std::move(access)) : access; };
  const auto upper = task.touch(changed(update(f.upper(j)), more));
  const auto lower = split < m ? task.touch(changed(update(f.lower(j)), more || j < f.panels())) : upper;
  const std::optional<TilePart> above = split < m ? std::optional<TilePart>{upper} : std::nullopt;
  task.call(call::laswp(task.dtype, 0, first, false, {exchanges}, {lower}, above), 0);
  const TilePart u{upper, false, false, rows_of(first, first + w, width)};
  task.solve(Uplo::lower, true, {panel, false, false, rows_of(0, w, w)}, u);
  task.subtract({panel, false, false, rows_of(w, split - first, w)}, u,
                {upper, false, false, rows_of(first + w, split, width)});
  task.subtract({panel, false, false, rows_of(split - first, m - first, w)}, u,
                {lower, false, false, rows_of(0, m - split, width)});
  task.add(graph);
}

void factor_panel(Graph& graph, const LuColumns& f, const Array& pivots, Index k) {
  Panel task("getrf", f.lower(k).array.dtype());
  task.task.priority = 1;
  const auto panel = task.touch(update(f.lower(k))), chosen = task.touch(write(pivots_of(pivots, f, k)));
  const auto work = task.touch(scratch(kernel::getrf_work_bytes(task.dtype, f.rows() - f.first(k))));
  const double m = static_cast<double>(f.rows() - f.first(k)), w = static_cast<double>(f.width(k));
  task.call(call::getrf(task.dtype, f.first(k), {panel}, {chosen}, work), m * w * w - w * w * w / 3);
  task.add(graph);
}

/// Rows counted from `origin` exchanged as the panels [k, panels) chose, in what is there or in a copy of `from`.
void exchange_rows(Graph& graph, const LuColumns& f, const Array& pivots, Index k, const Region& rows, Index origin,
                   const Region* from = nullptr) {
  Panel task("laswp", rows.array.dtype());
  const auto changed = task.touch(from ? write(rows) : update(rows));
  const Box all = flagstone::whole(rows.box.shape);
  if (from)
    task.call(call::take(task.dtype, Part::all, {task.touch(read(*from)), false, false, all}, 0,
                         {changed, false, false, all}, {}),
              0);
  for (; k < f.panels(); ++k) {
    const auto chosen = task.touch(read(pivots_of(pivots, f, k)));
    task.call(call::laswp(task.dtype, origin, f.first(k), false, {chosen}, {changed}), 0);
  }
  task.task.cost.bytes_touched =
      2.0 * static_cast<double>(count(rows.box.shape)) * static_cast<double>(size_of(task.dtype));
  task.add(graph);
}

/// The tasks that bring in columns [begin, end) of A.
void take_columns(Graph& graph, const char* who, const Operand& a, const LuColumns& f, Index begin, Index end) {
  for (Index j = begin; j < end; ++j) {
    const Index at = f.first(j), width = f.width(j), split = f.split(j);
    if (f.upper(j).array.id() == a.array.id()) continue;  // in place
    if (split > 0)
      take(graph, Part::all, piece(a, {{0, at}, {split, width}}), 0, again(whole_tile(f.upper(j))), {who, 0, at});
    if (split < f.rows())
      take(graph, Part::all, piece(a, {{split, at}, {f.rows() - split, width}}), 0, again(whole_tile(f.lower(j))),
           {who, split, at});
  }
}

/// One step of L Y = P B or of U X = Y for the columns of X in `x`.
void forward(Graph& graph, const LuColumns& f, const Array& pivots, RowOrder order, Index k, const Region& x) {
  const Index first = f.first(k), w = f.width(k), n = f.order(), width = x.box.shape[1];
  Panel task("forward", x.array.dtype());
  const auto panel = task.touch(read(f.lower(k))), changed = task.touch(again(update(x)));
  if (order == RowOrder::interleaved)
    task.call(call::laswp(task.dtype, 0, first, false, {task.touch(read(pivots_of(pivots, f, k)))}, {changed}), 0);
  const TilePart y{changed, false, false, rows_of(first, first + w, width)};
  task.solve(Uplo::lower, true, {panel, false, false, rows_of(0, w, w)}, y);
  task.subtract({panel, false, false, rows_of(w, n - first, w)}, y,
                {changed, false, false, rows_of(first + w, n, width)});
  task.add(graph);
}

void back(Graph& graph, call::Place place, const LuColumns& f, Index k, const Region& x, const Array* kept) {
  const Index first = f.first(k), w = f.width(k), width = x.box.shape[1];
  Panel task("back", x.array.dtype());
  const auto diagonal = task.touch(read(f.lower(k))), changed = task.touch(k > 0 ? again(update(x)) : update(x));
  const TilePart y{changed, false, false, rows_of(first, first + w, width)};
  std::optional<TilePart> to;
  if (kept) to = TilePart{task.touch(write({*kept, {{first}, {w}}}))};
  task.solve(Uplo::upper, false, {diagonal, false, false, rows_of(0, w, w)}, y, std::move(place), to);
  if (k > 0)
    task.subtract({task.touch(read(f.upper(k))), false, false, rows_of(0, first, w)}, y,
                  {changed, false, false, rows_of(0, first, width)});
  task.add(graph);
}

/// Columns of `bytes` that fit beside `beside` others.
Index together(const Graph& graph, std::uint64_t bytes, Index beside, Index most) {
  const auto fit = static_cast<Index>(order_budget(graph) / std::max<std::uint64_t>(1, bytes));
  return std::clamp<Index>(fit - beside, 1, std::max<Index>(1, most));
}

/// Columns of tiles that are in memory together: panels stream past them, the one in use and the next.
Index slab_width(const Graph& graph, Index rows, Index tile, Index columns, Dtype dtype) {
  return together(graph, static_cast<std::uint64_t>(rows * tile) * size_of(dtype), 2, columns);
}

}  // namespace

LuColumns::Make kept_tiles(Graph& graph, Stages& stages, Index rows, Index tile, Index columns, Dtype dtype) {
  const Index slab = slab_width(graph, rows, tile, columns, dtype),
              last = std::max<Index>(0, columns - 1) / slab * slab;
  return [&stages, dtype, last](const char* part, Index j, const Shape& shape) {
    return stages.temporary(part + std::to_string(j), shape, dtype, shape,
                            j < last ? Written::always : Written::for_room);
  };
}

void LuColumns::cut() {
  for (Index first = 0; first < cols_;) {
    first_.push_back(first);
    first = std::min(first + tile_, first < order() ? order() : cols_);
  }
}

LuColumns::LuColumns(const Array& lower, const Array& upper, Index tile)
    : rows_(lower.shape()[0]), cols_(lower.shape()[1]), tile_(tile) {
  cut();
  for (std::size_t j = 0; j < first_.size(); ++j) {
    const Index first = first_[j], width = (j + 1 < first_.size() ? first_[j + 1] : cols_) - first;
    const Index above = first < order() ? first : rows_;
    upper_.push_back({upper, {{0, first}, {above, width}}});
    if (first < order()) lower_.push_back({lower, {{first, first}, {rows_ - first, width}}});
  }
}

LuColumns::LuColumns(Index n, Index tile, const Make& make) : rows_(n), cols_(n), tile_(tile) {
  cut();
  for (std::size_t j = 0; j < first_.size(); ++j) {
    const Index first = first_[j], width = std::min(tile, n - first);
    const auto own = [&](const char* part, Index rows) -> Region {
      if (rows == 0) return {Array(), {{0, 0}, {0, width}}};
      return {make(part, static_cast<Index>(j), {rows, width}), flagstone::whole({rows, width})};
    };
    upper_.push_back(own("upper", first));
    lower_.push_back(own("lower", n - first));
  }
}

LuColumns LuColumns::apart(const Make& make) const {
  LuColumns made = *this;
  for (std::size_t j = 0; j < lower_.size(); ++j) {
    const Shape& shape = lower_[j].box.shape;
    made.lower_[j] = {make("lower", static_cast<Index>(j), shape), flagstone::whole(shape)};
  }
  return made;
}

void check_lu(const char* who, const Operand& a, bool square) {
  const Array& x = a.array;
  if (x.ndim() != 2 || (square && x.shape()[0] != x.shape()[1]))
    throw ShapeError(std::string(who) + ": the matrix is " + to_string(x.shape()) + "; a " +
                     (square ? "square one" : "matrix of two dimensions") + " is needed.");
  if (x.dtype() != Dtype::float32 && x.dtype() != Dtype::float64 && !is_complex(x.dtype()))
    throw ShapeError(std::string(who) + ": the matrix is " + std::string(name_of(x.dtype())) +
                     "; float32, float64, complex64 or complex128 is needed.");
}

Index lu_tile(Index n) {
  // A panel takes 0.75 b/n of the time on one worker, and two columns are in memory beside the slab: no wider than
  // products of this depth need to be fast.
  return std::max<Index>(1, std::min(n, std::clamp<Index>(ceil_div(ceil_div(n, 24), 64) * 64, 128, 512)));
}

void lu_columns(Graph& graph, const char* who, const Operand& a, const LuColumns& f, const Array& pivots,
                LuProgress& progress) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Index slab = slab_width(graph, f.rows(), f.tile(), f.count(), a.array.dtype());
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(4 * slab + 64));
  for (Index begin = progress.columns(f); begin < f.count(); begin += slab) {
    const Index end = std::min(begin + slab, f.count());
    take_columns(graph, who, a, f, begin, end);
    for (Index k = 0; k < std::min(end, f.panels()); ++k) {
      if (k >= begin) factor_panel(graph, f, pivots, k), progress.finish(f, k);
      for (Index j = std::max(k + 1, begin); j < end; ++j) apply_panel(graph, f, pivots, k, j);
    }
    for (Index j = std::max(begin, f.panels()); j < end; ++j) progress.finish(f, j);
  }
  graph.trust_order(false);
}

void lu(Graph& graph, const char* who, const Operand& a, const LuColumns& factor, const Array& pivots,
        const LuOptions& options) {
  check_lu(who, a, false);
  Stages stages(graph, options.checkpoint);
  LuProgress progress(stages, pivots);
  const bool lapack = options.rows == RowOrder::lapack, apart = lapack && (options.saved || stages.saving());
  if (!apart) {
    lu_columns(graph, who, a, factor, pivots, progress);
    for (Index k = 0; lapack && k + 1 < factor.panels(); ++k)
      exchange_rows(graph, factor, pivots, k + 1, factor.lower(k), factor.first(k));
    return;
  }
  const LuColumns f =
      factor.apart(kept_tiles(graph, stages, factor.rows(), factor.tile(), factor.count(), a.array.dtype()));
  progress.note(factor, false);
  progress.note(f, true);
  lu_columns(graph, who, a, f, pivots, progress);
  for (Index k = 0; k < f.panels(); ++k) {
    if (progress.holds(factor.lower(k))) continue;
    exchange_rows(graph, f, pivots, k + 1, factor.lower(k), f.first(k), &f.lower(k));
    progress.finish(factor.lower(k));
  }
}

void lu_solve(Graph& graph, const char* who, const LuColumns& f, const Array& pivots, RowOrder rows, const Operand& b,
              const Array& x, const LuSolveOptions& options) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Index n = f.order(), tile = right_tile(b.cols()), tiles = n > 0 ? ceil_div(b.cols(), tile) : 0;
  SolvedColumns solved(graph, options, x, tile);
  const Index group = together(graph, 2 * static_cast<std::uint64_t>(n * tile) * size_of(x.dtype()), 1, tiles);
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(4 * group + 64));
  for (Index begin = solved.first(); begin < tiles; begin += group) {
    std::vector<Region> columns;
    for (Index c = begin; c < std::min(begin + group, tiles); ++c) {
      columns.push_back(solved.column(c));
      if (b.array.id() != x.id())
        take(graph, Part::all, piece(b, columns.back().box), 0, again(whole_tile(columns.back())),
             right_side(who, whole_tile(columns.back())));
      if (rows == RowOrder::lapack) exchange_rows(graph, f, pivots, 0, columns.back(), 0);
    }
    const bool looks = options.given && begin == 0;
    for (Index k = 0; k < f.count(); ++k) {
      if (looks) look(graph, Part::all, false, whole_tile(f.lower(k)), {who, f.first(k), f.first(k), options.whose});
      for (const Region& column : columns) forward(graph, f, pivots, rows, k, column);
    }
    for (Index k = f.count() - 1; k >= 0; --k) {
      if (looks && k > 0) look(graph, Part::all, false, whole_tile(f.upper(k)), {who, 0, f.first(k), options.whose});
      for (const Region& column : columns)
        back(graph, {who, f.first(k), f.first(k), options.whose}, f, k, column,
             begin == 0 && &column == &columns.front() ? options.diagonal : nullptr);
    }
    solved.finish(columns);
  }
  graph.trust_order(false);
}

void solve_general(Graph& graph, const char* who, const Operand& a, const Operand& b, const Array& x,
                   const Array* diagonal, const std::shared_ptr<Checkpoint>& checkpoint) {
  check_lu(who, a);
  const Index n = a.rows();
  const Array pivots = graph.allocate({n}, Dtype::int64);
  Stages stages(graph, checkpoint);
  const Index tile = lu_tile(n);
  const LuColumns factor(n, tile, kept_tiles(graph, stages, n, tile, ceil_div(n, tile), a.array.dtype()));
  LuProgress progress(stages, pivots);
  progress.note(factor, true);
  lu_columns(graph, who, a, factor, pivots, progress);
  lu_solve(graph, who, factor, pivots, RowOrder::interleaved, b, x, {.diagonal = diagonal, .whose = Whose::own_factor});
}

}  // namespace flagstone::linalg
