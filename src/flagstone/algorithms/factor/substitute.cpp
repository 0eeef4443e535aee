#include "flagstone/algorithms/factor/substitute.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <string>

#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::linalg {
namespace {

constexpr Index rows_a_worker = 3;  // of tiles that go on side by side where rows are noted

/// T⁻¹ applied to columns [first, last) of tiles.
struct Sweep {
  const char* who;
  Whose whose;  // T is, for errors
  Tiled T;
  bool lower, unit, turned;
  Tiled X;
  Index first, last;
  std::complex<double> alpha;         // what the right-hand sides are multiplied by, as they are first touched
  bool more;                          // whether another sweep changes X
  bool given;                         // whether B is the caller's: NaN and Inf are named, and not those of a sweep
  bool looks;                         // whether T is: those of its triangle are
  const Array* kept = nullptr;        // where the diagonal goes
  std::function<Index(Index)> above;  // tiles of a column that are zero

  Index row(Index step) const { return lower ? step : T.rows() - 1 - step; }
  call::Place place(Index i, Index k) const {
    const Index tile = T(0, 0).rows();
    return {who, i * tile, k * tile, whose, turned};
  }

  /// Rows of the steps [from, end), those before being final: column by column of T, so that these rows go on side by
  /// side.
  void rows(Graph& graph, Index from, Index end) const {
    for (Index step = above(first); step < end; ++step) {
      const Index k = row(step), at = k * T(0, 0).rows();
      const TriangularTile diagonal{T(k, k), lower ? Uplo::lower : Uplo::upper, unit};
      const Region copied = kept ? Region{*kept, {{at}, {diagonal.tile.rows()}}} : Region{};
      if (looks && step >= from) look(graph, lower ? Part::lower : Part::upper, unit, T(k, k), place(k, k));
      for (Index c = first; c < last && step >= from && above(c) <= step; ++c)
        trsm(graph, Side::left, diagonal, step == above(c) ? alpha : 1.0, again(X(k, c), more), place(k, k),
             kept && c == first ? &copied : nullptr);
      for (Index left = std::max(step + 1, from); left < end; ++left) {
        if (looks) look(graph, Part::all, false, T(row(left), k), place(row(left), k));
        for (Index c = first; c < last && above(c) <= step; ++c)
          downdate(graph, T(row(left), k), X(k, c), again(X(row(left), c)), step == above(c) ? alpha : 1.0);
      }
    }
  }
  /// Brings their right-hand sides in.
  void take_rows(Graph& graph, const Tiled& B, Index from, Index end) const {
    for (Index step = from; step < end; ++step)
      for (Index c = first; c < last && above(c) <= step; ++c)
        take(graph, Part::all, B(row(step), c), 0, again(X(row(step), c)),
             given ? right_side(who, X(row(step), c)) : call::Place{});
  }
  template <class F>
  void each_tile(Index step, F&& f) const {
    for (Index c = first; c < last; ++c) f(X(row(step), c).region.box);
  }
  Index finished(const FinishedTiles& tiles) const {
    for (Index step = 0; step < T.rows(); ++step) {
      bool all = true;
      each_tile(step, [&](const Box& box) { all = all && tiles.holds(box); });
      if (!all) return step;
    }
    return T.rows();
  }
  void run(Graph& graph, const Tiled& B, Index together, FinishedTiles& tiles) const {
    for (Index from = finished(tiles); from < T.rows(); from += together) {
      const Index end = std::min(from + together, T.rows());
      if (B(0, 0).region.array.id() != X(0, 0).region.array.id()) take_rows(graph, B, from, end);
      rows(graph, from, end);
      for (Index step = from; step < end; ++step) each_tile(step, [&](const Box& box) { tiles.finish(box); });
      tiles.offer();
    }
  }
};

/// Column tiles of X that stay in memory: half of the budget, the other half is for what streams.
Index columns_together(const Graph& graph, const Tiled& X, std::uint64_t column_bytes) {
  return std::clamp<Index>(static_cast<Index>(order_budget(graph) / 2 / std::max<std::uint64_t>(1, column_bytes)), 1,
                           std::max<Index>(1, X.cols()));
}

std::string shape_text(const Operand& x) { return to_string({x.rows(), x.cols()}); }

}  // namespace

TriangularOperand adjoint(TriangularOperand x) {
  x.matrix.transpose = !x.matrix.transpose;
  x.matrix.conjugate = is_complex(x.matrix.array.dtype()) && !x.matrix.conjugate;
  x.lower = !x.lower;
  x.turned = !x.turned;
  return x;
}

Stages::Kept keep_diagonal(Stages& stages, const Array* diagonal) {
  return stages.keep("diagonal", [of = diagonal ? *diagonal : Array()](StateParts& parts) mutable {
    if (of) parts.array("", of);
  });
}

Index right_tile(Index columns) { return std::clamp<Index>(columns, 1, 512); }

void check_substitute(const char* who, const TriangularOperand& t, const Operand& b, const Array* x) {
  const std::string name = std::string(who) + ": ";
  for (const Operand* one : {&t.matrix, &b})
    if (one->array.ndim() != 2)
      throw ShapeError(name + "an operand has " + std::to_string(one->array.ndim()) + " dimensions; two are needed.");
  if (t.matrix.rows() != t.matrix.cols())
    throw ShapeError(name + "the matrix is " + shape_text(t.matrix) + "; a square one is needed.");
  const Dtype dtype = t.matrix.array.dtype();
  if (dtype != Dtype::float32 && dtype != Dtype::float64 && !is_complex(dtype))
    throw ShapeError(name + "the matrix is " + std::string(name_of(dtype)) +
                     "; float32, float64, complex64 or complex128 is needed.");
  if (b.array.dtype() != dtype)
    throw ShapeError(name + "the matrix is " + std::string(name_of(dtype)) + " and b is " +
                     std::string(name_of(b.array.dtype())) + "; one dtype is needed, convert one of them.");
  if (b.rows() != t.matrix.rows())
    throw ShapeError(name + "the matrix is " + shape_text(t.matrix) + " and b is " + shape_text(b) +
                     "; b needs as many rows.");
  if (!x) return;
  if (x->shape() != Shape{b.rows(), b.cols()} || x->dtype() != dtype)
    throw ShapeError(name + "the solution is " + to_string(x->shape()) + " " + std::string(name_of(x->dtype())) + "; " +
                     shape_text(b) + " " + std::string(name_of(dtype)) + " is needed.");
  const Index rows = factor_tile(b.rows(), dtype), cols = right_tile(b.cols());
  if (!x->in_memory() && !takes_any_box(*x) && (rows % x->chunks()[0] != 0 || cols % x->chunks()[1] != 0))
    throw ShapeError(name + "the solution has chunks of " + to_string(x->chunks()) + "; they must divide its tiles, " +
                     to_string({rows, cols}) + ".");
}

void substitute(Graph& graph, const char* who, const std::vector<TriangularOperand>& factors, const Operand& b,
                const Array& x, const SubstituteOptions& options) {
  for (const TriangularOperand& factor : factors) check_substitute(who, factor, b, &x);
  if (options.identity && (factors.size() != 1 || !factors[0].lower))
    throw ShapeError(std::string(who) + ": columns of the identity are for one lower factor alone.");
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Index n = b.rows(), edge = factor_tile(n, x.dtype()), width = right_tile(b.cols());
  const Cut rows{n, edge, edge}, cols{b.cols(), width, width};
  Stages stages(graph, options.checkpoint);
  const bool noted = stages.saving() || options.saved;
  const auto diagonal = keep_diagonal(stages, options.diagonal);
  // What a sweep leaves; where rows are noted each has an array of its own, for what is noted does not change.
  std::vector<Array> left(factors.size(), x);
  std::deque<FinishedTiles> finished;
  for (std::size_t s = 0; s < factors.size(); ++s) {
    const std::string name = "sweep" + std::to_string(s);
    if (noted && s + 1 < factors.size()) left[s] = stages.temporary(name, x.shape(), x.dtype(), {edge, width});
    finished.emplace_back(stages, left[s], Shape{edge, width}, name);
  }
  const Tiled B(b, rows, cols), X({x}, rows, cols);
  const auto column_bytes = static_cast<std::uint64_t>(n * width) * size_of(x.dtype());
  const Index together = columns_together(graph, X, noted ? factors.size() * column_bytes : column_bytes);
  const Index beside = noted ? rows_a_worker * graph.workers() : std::max<Index>(1, X.rows());
  const auto above = [&](Index c) { return options.identity ? (*options.identity + c * width) / edge : Index{0}; };
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(2 * X.rows() * together + 64));
  for (Index first = 0; first < X.cols() && n > 0; first += together) {
    const Index last = std::min(first + together, X.cols());
    for (std::size_t s = 0; s < factors.size(); ++s) {
      const TriangularOperand& factor = factors[s];
      const bool begins = s == 0;
      const Sweep sweep{who,
                        options.whose,
                        Tiled(factor.matrix, rows, rows),
                        factor.lower,
                        factor.unit,
                        factor.turned,
                        Tiled({left[s]}, rows, cols),
                        first,
                        last,
                        begins ? options.alpha : 1.0,
                        !noted && s + 1 < factors.size(),
                        begins,
                        begins && first == 0 && options.given,
                        begins && first == 0 ? options.diagonal : nullptr,
                        above};
      sweep.run(graph, begins ? B : Tiled({left[s - 1]}, rows, cols), beside, finished[s]);
    }
  }
  graph.trust_order(false);
}

}  // namespace flagstone::linalg
