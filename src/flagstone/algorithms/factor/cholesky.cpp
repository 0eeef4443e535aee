#include "flagstone/algorithms/factor/cholesky.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/factor/lower_block.hpp"
#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::linalg {
namespace {

/// A factor is written in whole tiles.
void check_factor(const std::string& who, const Operand& l, Index n) {
  const Array& x = l.array;
  const Index b = factor_tile(n, x.dtype());
  if (x.shape() != Shape{n, n})
    throw ShapeError(who + ": the factor is " + to_string(x.shape()) + "; " + to_string({n, n}) + " is needed.");
  if (!x.in_memory() && !takes_any_box(x) && (b % x.chunks()[0] != 0 || b % x.chunks()[1] != 0))
    throw ShapeError(who + ": the factor has chunks of " + to_string(x.chunks()) + "; they must divide its tiles, " +
                     to_string({b, b}) + " (factor_tile).");
}

/// Whether L replaces A: its tiles are updated where they are, and nothing above the diagonal is touched.
bool in_place(const CholeskyOptions& options, const Operand& a, const Operand& l) {
  if (a.array.id() != l.array.id()) return false;
  if (a.transpose != l.transpose || options.shift != 0)
    throw ShapeError(options.who + ": in place A and L are one triangle, and nothing is added to its diagonal.");
  return true;
}

/// Nothing is to be done above the diagonal.
void finish_above(const Tiled& l, FinishedTiles& finished) {
  for (Index j = 0; j < l.cols(); ++j)
    for (Index i = 0; i < j; ++i) finished.finish(l(i, j).region.box);
}

/// What column k of the factor, where it lies in the block, takes from right-hand sides.
void forward(Graph& graph, const CholeskyOptions& options, const Tiled& L, const Tiled& Y, const LowerBlock& block,
             Index k) {
  const Array* const diagonal = options.diagonal ? &*options.diagonal : nullptr;
  const Index first = k * L(0, 0).rows();
  const Region copied = diagonal ? Region{*diagonal, {{first}, {L(k, k).rows()}}} : Region{};
  for (Index c = 0; c < Y.cols(); ++c)
    for (Index i = std::max(k, block.row); i < block.row_end(); ++i)
      i == k ? trsm(graph, Side::left, lower(L(k, k)), 1.0, Y(k, c), {options.who, first, first},
                    diagonal && c == 0 ? &copied : nullptr)
             : downdate(graph, L(i, k), Y(k, c), again(Y(i, c)));
}

BlockExtent block_extent(const Graph& graph, Index tiles, Index b, Dtype dtype, std::uint64_t beside) {
  const double elements = static_cast<double>(b) * static_cast<double>(b);
  const double flops = 2 * elements * static_cast<double>(b) * (is_complex(dtype) ? 4 : 1);
  const std::uint64_t budget = order_budget(graph);
  return choose_lower_block(tiles, elements * static_cast<double>(size_of(dtype)), flops,
                            budget - std::min(beside, budget), graph.workers());
}

}  // namespace

void check_cholesky(const std::string& who, const Operand& a) {
  const Array& x = a.array;
  if (x.ndim() != 2 || x.shape()[0] != x.shape()[1])
    throw ShapeError(who + ": the matrix is " + to_string(x.shape()) + "; a square one is needed.");
  if (x.dtype() != Dtype::float32 && x.dtype() != Dtype::float64 && !is_complex(x.dtype()))
    throw ShapeError(who + ": the matrix is " + std::string(name_of(x.dtype())) +
                     "; float32, float64, complex64 or complex128 is needed.");
}

Index factor_tile(Index n, Dtype dtype) {
  // 8 MiB a tile; at least eight of them in a row where that leaves BLAS at its rate.
  const double edge = std::sqrt(8.0 * 1024 * 1024 / static_cast<double>(size_of(dtype)));
  const Index most = static_cast<Index>(edge) / 64 * 64, eighth = ceil_div(ceil_div(n, 8), 64) * 64;
  return std::max<Index>(1, std::min(n, std::clamp<Index>(eighth, 256, most)));
}

void cholesky(Graph& graph, const Operand& a, const Operand& l, const CholeskyOptions& options) {
  const std::string& who = options.who;
  check_cholesky(who, a);
  check_factor(who, l, a.rows());
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Index host_tile = factor_tile(a.rows(), l.array.dtype());
  const Index b = graph.large_tiles() && a.rows() >= 32 * host_tile ? 2 * host_tile : host_tile;
  const Cut cut{a.rows(), b, b};
  const Tiled A(a, cut, cut), L(l, cut, cut);
  const bool given = in_place(options, a, l);
  Stages stages(graph, options.checkpoint);
  FinishedTiles finished = stages.tiles(l.array, {b, b});
  finish_above(L, finished);
  const Index sides = options.forward ? options.forward->shape()[1] : 0, width = right_tile(sides);
  const auto beside = static_cast<std::uint64_t>(a.rows() * sides) * size_of(l.array.dtype());
  const BlockExtent extent = block_extent(graph, L.rows(), b, l.array.dtype(), beside);
  const Cut across{sides, width, width};
  const Tiled B(options.right.value_or(l), cut, across), Y({options.forward.value_or(l.array)}, cut, across);
  for (Index i = 0; i < Y.rows(); ++i)
    for (Index c = 0; c < Y.cols(); ++c) take(graph, Part::all, B(i, c), 0, again(Y(i, c)), right_side(who, Y(i, c)));
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(2 * extent.rows * extent.cols + 64));
  for (const LowerBlock& block : lower_blocks(L.rows(), extent)) {
    const auto open = block.tiles([&](Index i, Index j) { return !finished.holds(L(i, j).region.box); });
    for (const auto& [i, j] : open)
      if (!given)
        take(graph, i == j ? Part::lower : Part::all, A(i, j), i == j ? options.shift : 0, again(L(i, j)),
             {who, i * b, j * b, call::Whose::matrix, options.turned});
    for (Index k = 0; k < block.col_end() && (!open.empty() || options.forward); ++k) {
      for (const auto& [i, j] : open) {  // column k of the factor, where it lies in the block
        if (j != k) continue;
        i == k ? potrf(graph, L(k, k), {who, k * b, k * b})
               : trsm(graph, Side::right, adjoint(lower(L(k, k))), 1.0, L(i, k));
        finished.finish(L(i, k).region.box);
      }
      if (k >= block.col) finished.offer();
      if (k >= block.col) forward(graph, options, L, Y, block, k);
      for (const auto& [i, j] : open)  // what it takes from the columns to its right
        if (j > k)
          i == j ? downdate(graph, L(i, k), again(L(i, i)))
                 : downdate(graph, L(i, k), adjoint(L(j, k)), again(L(i, j)));
    }
  }
  graph.trust_order(false);
}

}  // namespace flagstone::linalg
