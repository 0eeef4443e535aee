#include "flagstone/algorithms/factor/lu_transposed.hpp"

#include <algorithm>

#include "flagstone/algorithms/factor/lu_progress.hpp"
#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::linalg {
namespace {

constexpr Index rows_at_once = 1024;  // of the factor in one product: what is conjugated is copied

/// One step for one column of tiles of X: what the factor's column k says of rows [first(k), first(k) + width(k)).
class Step {
 public:
  Step(const char* name, const LuColumns& f, Index k, const Region& x, bool conjugate)
      : f_(f), k_(k), width_(x.box.shape[1]), dtype_(x.array.dtype()), conjugate_(conjugate && is_complex(dtype_)) {
    task_.name = name;
    task_.cost.float64 = real_part_of(dtype_) == Dtype::float64;
    x_ = touch(update(x)), lower_ = touch(read(f.lower(k)));
    // BLAS conjugates what it transposes too, of one order of tiles alone: elsewhere a piece is copied.
    if (conjugate_)
      room_ = touch(scratch(static_cast<std::size_t>(rows_at_once * f.width(k)) * size_of(dtype_) + 4096));
  }
  std::uint32_t touch(Access access) {
    task_.accesses.push_back(std::move(access));
    return static_cast<std::uint32_t>(task_.accesses.size() - 1);
  }
  std::uint32_t x() const { return x_; }
  std::uint32_t lower() const { return lower_; }
  void call(Call made, double flops) {
    made.flops = is_complex(dtype_) ? 4 * flops : flops;
    task_.cost.flops += made.flops;
    task_.calls.push_back(std::move(made));
  }
  /// Rows of X less Tᵀ times others: `from`, the first row of T in its access; `row`, where that row is in X.
  void subtract(std::uint32_t t, Index from, Index row, Index rows) {
    const Index w = f_.width(k_);
    for (Index done = 0; done < rows; done += rows_at_once) {
      const Index some = std::min(rows_at_once, rows - done);
      call(call::flushed(call::gemm(dtype_, -1.0, {t, true, conjugate_, {{from + done, 0}, {some, w}}},
                                    rows_of_x(row + done, some), 1.0, rows_of_x(f_.first(k_), w), room_)),
           2.0 * static_cast<double>(some) * static_cast<double>(w) * static_cast<double>(width_));
    }
  }
  void solve(Uplo uplo, bool unit, call::Place place, const Array* kept = nullptr) {
    const Index w = f_.width(k_);
    std::optional<TilePart> to;
    if (kept) to = TilePart{touch(write({*kept, {{f_.first(k_)}, {w}}}))};
    call(call::trsm(dtype_, Side::left, uplo, unit, 1.0, {lower_, true, conjugate_, {{0, 0}, {w, w}}},
                    rows_of_x(f_.first(k_), w), std::move(place), std::move(to)),
         static_cast<double>(w * w) * static_cast<double>(width_));
  }
  void add(Graph& graph) { graph.add(std::move(task_)); }

 private:
  TilePart rows_of_x(Index first, Index rows) const { return {x_, false, false, {{first, 0}, {rows, width_}}}; }

  const LuColumns& f_;
  Index k_, width_;
  Dtype dtype_;
  bool conjugate_;
  TaskSpec task_;
  std::uint32_t x_ = 0, lower_ = 0;
  std::optional<std::uint32_t> room_;
};

}  // namespace

void lu_solve_transposed(Graph& graph, const char* who, const LuColumns& f, const Array& pivots, RowOrder rows,
                         bool conjugate, const Operand& b, const Array& x, const LuSolveOptions& options) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Index n = f.order(), tile = right_tile(b.cols()), tiles = n > 0 ? ceil_div(b.cols(), tile) : 0;
  SolvedColumns solved(graph, options, x, tile);
  const auto bytes = 2 * static_cast<std::uint64_t>(n * tile) * size_of(x.dtype());
  const auto fit = static_cast<Index>(order_budget(graph) / std::max<std::uint64_t>(1, bytes));
  const Index group = std::clamp<Index>(fit - 1, 1, std::max<Index>(1, tiles));
  const auto chosen = [&](Index k) { return read({pivots, {{f.first(k)}, {f.width(k)}}}); };
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(4 * group + 64));
  for (Index begin = solved.first(); begin < tiles; begin += group) {
    std::vector<Region> columns;
    for (Index c = begin; c < std::min(begin + group, tiles); ++c) {
      columns.push_back(solved.column(c));
      const Box box = columns.back().box;
      if (b.array.id() == x.id()) continue;
      Box stored = box;
      if (b.transpose) std::swap(stored.start[0], stored.start[1]), std::swap(stored.shape[0], stored.shape[1]);
      take(graph, Part::all, {{b.array, stored}, whole(stored.shape), {b.transpose, b.conjugate}}, 0,
           {columns.back(), whole(box.shape), {}}, right_side(who, {columns.back(), whole(box.shape), {}}));
    }
    for (Index k = 0; k < f.count(); ++k) {  // Uᵀ Y = B
      if (options.given && begin == 0) {
        const auto seen = [](const Region& box) { return MatrixTile{box, whole(box.box.shape), {}}; };
        look(graph, Part::all, false, seen(f.lower(k)), {who, f.first(k), f.first(k), options.whose});
        if (k > 0) look(graph, Part::all, false, seen(f.upper(k)), {who, 0, f.first(k), options.whose});
      }
      for (const Region& column : columns) {
        Step step("back", f, k, column, conjugate);
        if (k > 0) step.subtract(step.touch(read(f.upper(k))), 0, 0, f.first(k));
        step.solve(Uplo::lower, false, {who, f.first(k), f.first(k), options.whose},
                   begin == 0 && &column == &columns.front() ? options.diagonal : nullptr);
        step.add(graph);
      }
    }
    for (Index k = f.count() - 1; k >= 0; --k)  // Lᵀ X = Y, and the exchanges the other way round
      for (const Region& column : columns) {
        const Index first = f.first(k), w = f.width(k);
        Step step("forward", f, k, column, conjugate);
        step.subtract(step.lower(), w, first + w, n - first - w);
        step.solve(Uplo::upper, true, {});
        if (rows == RowOrder::interleaved)
          step.call(call::laswp(x.dtype(), 0, first, true, {step.touch(chosen(k))}, {step.x()}), 0);
        step.add(graph);
      }
    for (const Region& column : columns) {
      if (rows == RowOrder::interleaved) break;
      TaskSpec task;
      task.name = "laswp";
      task.accesses = {update(column)};
      for (Index k = f.count() - 1; k >= 0; --k) {
        task.accesses.push_back(chosen(k));
        const auto access = static_cast<std::uint32_t>(task.accesses.size() - 1);
        task.calls.push_back(call::laswp(x.dtype(), 0, f.first(k), true, {access}, {0}));
      }
      task.cost.bytes_touched =
          2.0 * static_cast<double>(count(column.box.shape)) * static_cast<double>(size_of(x.dtype()));
      graph.add(std::move(task));
    }
    solved.finish(columns);
  }
  graph.trust_order(false);
}

}  // namespace flagstone::linalg
