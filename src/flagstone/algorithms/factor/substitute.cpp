#include "flagstone/algorithms/factor/substitute.hpp"

#include <algorithm>
#include <functional>

#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::linalg {
namespace {

/// T⁻¹ applied to columns [first, last) of tiles: column by column of T, so that all rows go on side by side.
/// `above(c)`: tiles of column c that are zero. `alpha`: what the right-hand sides are multiplied by, as they are first
/// touched; `more`: whether another sweep follows.
void sweep(Graph& graph, const char* who, const Tiled& T, const TriangularOperand& how, const Tiled& X, Index first,
           Index last, const Array* kept, const std::function<Index(Index)>& above, std::complex<double> alpha,
           bool more) {
  const Index n = T.rows();
  for (Index step = above(first); step < n; ++step) {
    const Index k = how.lower ? step : n - 1 - step;
    const TriangularTile diagonal{T(k, k), how.lower ? Uplo::lower : Uplo::upper, how.unit};
    const Index at = k * T(0, 0).rows();
    const Region copied = kept ? Region{*kept, {{at}, {diagonal.tile.rows()}}} : Region{};
    for (Index c = first; c < last && above(c) <= step; ++c)
      trsm(graph, Side::left, diagonal, step == above(c) ? alpha : 1.0, again(X(k, c), more), {who, at, 0},
           kept && c == first ? &copied : nullptr);
    for (Index left = step + 1; left < n; ++left) {
      const Index i = how.lower ? left : n - 1 - left;
      for (Index c = first; c < last && above(c) <= step; ++c)
        gemm(graph, -1.0, T(i, k), X(k, c), step == above(c) ? alpha : 1.0, again(X(i, c)));
    }
  }
}

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
  return x;
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
                const Array& x, const Array* diagonal, std::optional<Index> identity, std::complex<double> alpha) {
  for (const TriangularOperand& factor : factors) check_substitute(who, factor, b, &x);
  if (identity && (factors.size() != 1 || !factors[0].lower))
    throw ShapeError(std::string(who) + ": columns of the identity are for one lower factor alone.");
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Index n = b.rows(), edge = factor_tile(n, x.dtype()), width = right_tile(b.cols());
  const Cut rows{n, edge, edge}, cols{b.cols(), width, width};
  const Tiled B(b, rows, cols), X({x}, rows, cols);
  const auto column_bytes = static_cast<std::uint64_t>(n * width) * size_of(x.dtype());
  const Index together = columns_together(graph, X, column_bytes);
  const auto above = [&](Index c) { return identity ? (*identity + c * width) / edge : Index{0}; };
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(2 * X.rows() * together + 64));
  for (Index first = 0; first < X.cols(); first += together) {
    const Index last = std::min(first + together, X.cols());
    for (Index i = 0; i < X.rows(); ++i)
      for (Index c = first; c < last && above(c) <= i; ++c)
        if (b.array.id() != x.id()) take(graph, Part::all, B(i, c), 0, again(X(i, c)), {});
    for (const TriangularOperand& factor : factors)
      sweep(graph, who, Tiled(factor.matrix, rows, rows), factor, X, first, last,
            first == 0 && &factor == &factors.front() ? diagonal : nullptr, above,
            &factor == &factors.front() ? alpha : 1.0, &factor != &factors.back());
  }
  graph.trust_order(false);
}

}  // namespace flagstone::linalg
