#include "flagstone/algorithms/factor/lu.hpp"

#include <algorithm>
#include <optional>

#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

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
    if (m > 0) call(call::gemm(dtype, -1.0, a, b, 1.0, c), 2.0 * m * n * static_cast<double>(b.part.shape[0]));
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
  const Index first = f.first(k), split = f.first(j), w = f.width(k), n = f.order(), width = f.width(j);
  Panel task("apply_panel", f.lower(k).array.dtype());
  const auto exchanges = task.touch(read(pivots_of(pivots, f, k))), panel = task.touch(read(f.lower(k)));
  const auto lower = task.touch(update(f.lower(j))), upper = task.touch(update(f.upper(j)));
  task.call(call::laswp(task.dtype, 0, first, false, {exchanges}, {lower}, TilePart{upper}), 0);
  const TilePart u{upper, false, false, rows_of(first, first + w, width)};
  task.solve(Uplo::lower, true, {panel, false, false, rows_of(0, w, w)}, u);
  task.subtract({panel, false, false, rows_of(w, split - first, w)}, u,
                {upper, false, false, rows_of(first + w, split, width)});
  task.subtract({panel, false, false, rows_of(split - first, n - first, w)}, u,
                {lower, false, false, rows_of(0, n - split, width)});
  task.add(graph);
}

void factor_panel(Graph& graph, const LuColumns& f, const Array& pivots, Index k) {
  Panel task("getrf", f.lower(k).array.dtype());
  task.task.priority = 1;
  const auto panel = task.touch(update(f.lower(k))), chosen = task.touch(write(pivots_of(pivots, f, k)));
  const double m = static_cast<double>(f.order() - f.first(k)), w = static_cast<double>(f.width(k));
  task.call(call::getrf(task.dtype, f.first(k), {panel}, {chosen}), m * w * w - w * w * w / 3);
  task.add(graph);
}

/// Rows `from` and following of [upper; lower] exchanged as the panels [k, last) chose.
void exchange_rows(Graph& graph, const LuColumns& f, const Array& pivots, Index k, const Region& rows, Index origin) {
  Panel task("laswp", rows.array.dtype());
  const auto changed = task.touch(update(rows));
  for (; k < f.count(); ++k) {
    const auto chosen = task.touch(read(pivots_of(pivots, f, k)));
    task.call(call::laswp(task.dtype, origin, f.first(k), false, {chosen}, {changed}), 0);
  }
  task.task.cost.bytes_touched =
      2.0 * static_cast<double>(count(rows.box.shape)) * static_cast<double>(size_of(task.dtype));
  task.add(graph);
}

/// One step of L Y = P B or of U X = Y for the columns of X in `x`.
void forward(Graph& graph, const LuColumns& f, const Array& pivots, RowOrder order, Index k, const Region& x) {
  const Index first = f.first(k), w = f.width(k), n = f.order(), width = x.box.shape[1];
  Panel task("forward", x.array.dtype());
  const auto panel = task.touch(read(f.lower(k))), changed = task.touch(update(x));
  if (order == RowOrder::interleaved)
    task.call(call::laswp(task.dtype, 0, first, false, {task.touch(read(pivots_of(pivots, f, k)))}, {changed}), 0);
  const TilePart y{changed, false, false, rows_of(first, first + w, width)};
  task.solve(Uplo::lower, true, {panel, false, false, rows_of(0, w, w)}, y);
  task.subtract({panel, false, false, rows_of(w, n - first, w)}, y,
                {changed, false, false, rows_of(first + w, n, width)});
  task.add(graph);
}

void back(Graph& graph, const char* who, const LuColumns& f, Index k, const Region& x, const Array* kept) {
  const Index first = f.first(k), w = f.width(k), width = x.box.shape[1];
  Panel task("back", x.array.dtype());
  const auto diagonal = task.touch(read(f.lower(k))), changed = task.touch(update(x));
  const TilePart y{changed, false, false, rows_of(first, first + w, width)};
  std::optional<TilePart> to;
  if (kept) to = TilePart{task.touch(write({*kept, {{first}, {w}}}))};
  task.solve(Uplo::upper, false, {diagonal, false, false, rows_of(0, w, w)}, y, {who, first, first}, to);
  if (k > 0)
    task.subtract({task.touch(read(f.upper(k))), false, false, rows_of(0, first, w)}, y,
                  {changed, false, false, rows_of(0, first, width)});
  task.add(graph);
}

/// Columns of `bytes` that fit beside `beside` others.
Index together(const Graph& graph, std::uint64_t bytes, Index beside, Index most) {
  const auto fit = static_cast<Index>(graph.budget() / std::max<std::uint64_t>(1, bytes));
  return std::clamp<Index>(fit - beside, 1, std::max<Index>(1, most));
}

}  // namespace

LuColumns::LuColumns(const Array& lower, const Array& upper, Index tile) : n_(lower.shape()[0]), tile_(tile) {
  for (Index first = 0; first < n_; first += tile) {
    const Index width = std::min(tile, n_ - first);
    upper_.push_back({upper, {{0, first}, {first, width}}});
    lower_.push_back({lower, {{first, first}, {n_ - first, width}}});
  }
}

LuColumns::LuColumns(Graph& graph, Index n, Dtype dtype, Index tile) : n_(n), tile_(tile) {
  for (Index first = 0; first < n_; first += tile) {
    const Index width = std::min(tile, n_ - first);
    const auto own = [&](Index rows) -> Region {
      if (rows == 0) return {};
      return {graph.temporary({rows, width}, dtype, {rows, width}), flagstone::whole({rows, width})};
    };
    upper_.push_back(own(first));
    lower_.push_back(own(n_ - first));
  }
}

void check_lu(const char* who, const Operand& a) {
  const Array& x = a.array;
  if (x.ndim() != 2 || x.shape()[0] != x.shape()[1])
    throw ShapeError(std::string(who) + ": the matrix is " + to_string(x.shape()) + "; a square one is needed.");
  if (x.dtype() != Dtype::float32 && x.dtype() != Dtype::float64 && !is_complex(x.dtype()))
    throw ShapeError(std::string(who) + ": the matrix is " + std::string(name_of(x.dtype())) +
                     "; float32, float64, complex64 or complex128 is needed.");
}

Index lu_tile(Index n) {
  // A panel takes 0.75 b/n of the time on one worker, and two columns are in memory beside the slab: no wider than
  // products of this depth need to be fast.
  return std::max<Index>(1, std::min(n, std::clamp<Index>(ceil_div(ceil_div(n, 24), 64) * 64, 128, 512)));
}

void lu(Graph& graph, const char* who, const Operand& a, const LuColumns& f, const Array& pivots, RowOrder rows) {
  check_lu(who, a);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const auto bytes = static_cast<std::uint64_t>(f.order() * f.tile()) * size_of(a.array.dtype());
  const Index slab = together(graph, bytes, 2, f.count());  // panels stream: the one in use, and the next
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(4 * slab + 64));
  for (Index begin = 0; begin < f.count(); begin += slab) {
    const Index end = std::min(begin + slab, f.count());
    for (Index j = begin; j < end; ++j) {
      const Index at = f.first(j), width = f.width(j);
      if (f.lower(j).array.id() == a.array.id()) continue;  // in place
      if (j > 0) take(graph, Part::all, piece(a, {{0, at}, {at, width}}), 0, whole_tile(f.upper(j)), {who, 0, at});
      take(graph, Part::all, piece(a, {{at, at}, {f.order() - at, width}}), 0, whole_tile(f.lower(j)), {who, at, at});
    }
    for (Index k = 0; k < end; ++k) {
      if (k >= begin) factor_panel(graph, f, pivots, k);
      for (Index j = std::max(k + 1, begin); j < end; ++j) apply_panel(graph, f, pivots, k, j);
    }
  }
  for (Index k = 0; rows == RowOrder::lapack && k + 1 < f.count(); ++k)
    exchange_rows(graph, f, pivots, k + 1, f.lower(k), f.first(k));
  graph.trust_order(false);
}

void lu_solve(Graph& graph, const char* who, const LuColumns& f, const Array& pivots, RowOrder rows, const Operand& b,
              const Array& x, const Array* diagonal) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Index n = f.order(), tile = right_tile(b.cols()), tiles = ceil_div(b.cols(), tile);
  const Index group = together(graph, 2 * static_cast<std::uint64_t>(n * tile) * size_of(x.dtype()), 1, tiles);
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(4 * group + 64));
  for (Index begin = 0; begin < tiles; begin += group) {
    std::vector<Region> columns;
    for (Index c = begin; c < std::min(begin + group, tiles); ++c) {
      columns.push_back({x, {{0, c * tile}, {n, std::min(tile, b.cols() - c * tile)}}});
      if (b.array.id() != x.id())
        take(graph, Part::all, piece(b, columns.back().box), 0, whole_tile(columns.back()), {});
      if (rows == RowOrder::lapack) exchange_rows(graph, f, pivots, 0, columns.back(), 0);
    }
    for (Index k = 0; k < f.count(); ++k)
      for (const Region& column : columns) forward(graph, f, pivots, rows, k, column);
    for (Index k = f.count() - 1; k >= 0; --k)
      for (const Region& column : columns)
        back(graph, who, f, k, column, begin == 0 && &column == &columns.front() ? diagonal : nullptr);
  }
  graph.trust_order(false);
}

void solve_general(Graph& graph, const Operand& a, const Operand& b, const Array& x, const Array* diagonal) {
  const Index n = a.rows();
  const Array pivots = graph.allocate({n}, Dtype::int64);
  const LuColumns factor(graph, n, a.array.dtype(), lu_tile(n));
  lu(graph, "solve", a, factor, pivots, RowOrder::interleaved);
  lu_solve(graph, "solve", factor, pivots, RowOrder::interleaved, b, x, diagonal);
}

}  // namespace flagstone::linalg
