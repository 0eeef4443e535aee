#include "flagstone/algorithms/factor/triangular_product.hpp"

#include <algorithm>

#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::linalg {
namespace {

using kernel::Op;

/// The first rows x cols of a box of an array.
MatrixTile corner(const Array& array, Box box, Index rows, Index cols, Op op = {}) {
  return {{array, std::move(box)}, {{0, 0}, {rows, cols}}, op};
}

/// The triangle of a diagonal tile, with zeros and, of a unit one, ones, in `room`: an upper unit one lies transposed.
MatrixTile triangle(Graph& graph, const TriangularOperand& t, MatrixTile tile, const Array& room) {
  const bool turned = t.unit && !t.lower;
  if (turned) tile = transposed(tile);
  const Index n = tile.rows();
  take(graph,
       t.unit    ? Part::unit_lower
       : t.lower ? Part::lower
                 : Part::upper,
       tile, 0, corner(room, whole(room.shape()), n, n), {});
  return corner(room, whole(room.shape()), n, n, {turned, false});
}

}  // namespace

void triangular_product(Graph& graph, const char* who, const TriangularOperand& t, const Array& x,
                        std::complex<double> alpha) {
  check_substitute(who, t, {x}, &x);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Index n = x.shape()[0], m = x.shape()[1], edge = factor_tile(n, x.dtype()), width = right_tile(m);
  const Cut rows{n, edge, edge}, cols{m, width, width};
  const Tiled T(t.matrix, rows, rows), X({x}, rows, cols);
  // Two of each, so that a step begins while the one before it is computed; what is overwritten is never spilled.
  const Array rooms[] = {graph.temporary({edge, edge}, x.dtype(), {edge, edge}),
                         graph.temporary({edge, edge}, x.dtype(), {edge, edge})};
  const Array old = graph.temporary({2 * edge, m}, x.dtype(), {edge, width});
  const auto column = static_cast<std::uint64_t>(n * width) * size_of(x.dtype());
  const Index together =
      std::clamp<Index>(static_cast<Index>(order_budget(graph) / 2 / std::max<std::uint64_t>(1, column)), 1,
                        std::max<Index>(1, X.cols()));
  const auto first_k = [&](Index i) { return t.lower ? 0 : i + 1; };
  const auto last_k = [&](Index i) { return t.lower ? i : X.rows(); };
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(2 * X.rows() * together + 64));
  for (Index first = 0; first < X.cols(); first += together)
    for (Index step = 0; step < X.rows(); ++step) {
      const Index last = std::min(first + together, X.cols()), i = t.lower ? X.rows() - 1 - step : step;
      const MatrixTile diagonal = triangle(graph, t, T(i, i), rooms[step % 2]);
      for (Index c = first; c < last; ++c) {
        const MatrixTile to = X(i, c);
        const MatrixTile from = corner(old, {{step % 2 * edge, c * width}, {edge, to.cols()}}, to.rows(), to.cols());
        take(graph, Part::all, to, 0, from, {});
        gemm(graph, alpha, diagonal, from, 0, again(to, first_k(i) < last_k(i)));
      }
      for (Index k = first_k(i); k < last_k(i); ++k)
        for (Index c = first; c < last; ++c) gemm(graph, alpha, T(i, k), X(k, c), 1, again(X(i, c), k + 1 < last_k(i)));
    }
  graph.trust_order(false);
}

}  // namespace flagstone::linalg
