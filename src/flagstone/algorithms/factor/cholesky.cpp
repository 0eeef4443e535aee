#include "flagstone/algorithms/factor/cholesky.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/factor/lower_block.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::linalg {
namespace {

constexpr char who[] = "cholesky";

}  // namespace

void check_cholesky(const Operand& a) {
  const Array& x = a.array;
  if (x.ndim() != 2 || x.shape()[0] != x.shape()[1])
    throw ShapeError(std::string(who) + ": the matrix is " + to_string(x.shape()) + "; a square one is needed.");
  if (x.dtype() != Dtype::float32 && x.dtype() != Dtype::float64 && !is_complex(x.dtype()))
    throw ShapeError(std::string(who) + ": the matrix is " + std::string(name_of(x.dtype())) +
                     "; float32, float64, complex64 or complex128 is needed.");
}

Index factor_tile(Index n, Dtype dtype) {
  // 8 MiB a tile; at least eight of them in a row where that leaves BLAS at its rate.
  const double edge = std::sqrt(8.0 * 1024 * 1024 / static_cast<double>(size_of(dtype)));
  const Index most = static_cast<Index>(edge) / 64 * 64, eighth = ceil_div(ceil_div(n, 8), 64) * 64;
  return std::max<Index>(1, std::min(n, std::clamp<Index>(eighth, 256, most)));
}

void cholesky(Graph& graph, const Operand& a, const Operand& l, const CholeskyOptions& options) {
  check_cholesky(a);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Dtype dtype = l.array.dtype();
  const Index n = l.rows(), b = factor_tile(n, dtype);
  const Tiled A(a, {n, b, b}, {n, b, b}), L(l, {n, b, b}, {n, b, b});
  Stages stages(graph, options.checkpoint);
  FinishedTiles finished = stages.tiles(l.array, {b, b});
  const auto elements = static_cast<double>(b * b);
  const BlockExtent extent = choose_lower_block(L.rows(), elements * static_cast<double>(size_of(dtype)),
                                                2 * elements * static_cast<double>(b) * (is_complex(dtype) ? 4 : 1),
                                                graph.budget(), graph.workers());
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(2 * extent.rows * extent.cols + 64));
  for (const LowerBlock& block : lower_blocks(L.rows(), extent)) {
    auto open = block.tiles();
    std::erase_if(open, [&](const auto& at) { return finished.holds(L(at.first, at.second).region.box); });
    for (const auto& [i, j] : open)
      take(graph, i == j ? Part::lower : Part::all, A(i, j), i == j ? options.shift : 0, L(i, j), {who, i * b, j * b});
    for (Index k = 0; k < block.col_end() && !open.empty(); ++k) {
      for (const auto& [i, j] : open)  // column k of the factor
        if (j == k && i == k)
          potrf(graph, L(k, k), {who, k * b, k * b});
        else if (j == k)
          trsm(graph, Side::right, adjoint(lower(L(k, k))), 1.0, L(i, k));
      for (const auto& [i, j] : open)  // what it takes from those to its right
        if (j > k && i == j)
          herk(graph, -1, L(i, k), 1, L(i, i));
        else if (j > k)
          gemm(graph, -1, L(i, k), adjoint(L(j, k)), 1, L(i, j));
    }
    for (const auto& [i, j] : open) finished.finish(L(i, j).region.box);
    finished.offer();
  }
  graph.trust_order(false);
}

}  // namespace flagstone::linalg
