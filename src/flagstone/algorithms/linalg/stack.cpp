#include "flagstone/algorithms/linalg/stack.hpp"

#include <algorithm>

#include "flagstone/algorithms/linalg/kept_operand.hpp"
#include "flagstone/algorithms/linalg/superblock.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::linalg {
namespace {

constexpr Index task_bytes = 4 * MiB;  // of small matrices that one task multiplies

/// The matrices of C that one task computes: whole chunks, and more of small ones. As `product_tile`, never a function
/// of the budget.
Shape stretch(const Operand& a, const Operand& b, const Array& c) {
  const Shape lead = lead_of(c);
  const bool any = c.in_memory() || takes_any_box(c);
  Shape tile(lead.size(), 1);
  for (std::size_t d = 0; d < lead.size(); ++d)
    if (!any) tile[d] = std::max<Index>(1, std::min(c.chunks()[d], lead[d]));
  const Index m = a.rows(), n = b.cols(), k = a.cols();
  const auto one = static_cast<Index>(size_of(c.dtype())) * std::max<Index>(1, m * n + m * k + k * n);
  for (std::size_t d = lead.size(); d-- > 0;) {
    while (tile[d] < lead[d] && 2 * count(tile) * one <= task_bytes) tile[d] = std::min(2 * tile[d], lead[d]);
    if (tile[d] < lead[d]) break;
  }
  return tile;
}

/// Which matrices of an operand meet those of the product's.
Box lead_box(const Array& x, const Box& of_product) {
  const Shape lead = lead_of(x);
  const std::size_t more = of_product.start.size() - lead.size();
  Box box{Shape(lead.size(), 0), Shape(lead.size(), 1)};
  for (std::size_t d = 0; d < lead.size(); ++d)
    if (lead[d] > 1) box.start[d] = of_product.start[more + d], box.shape[d] = of_product.shape[more + d];
  return box;
}

Shape with(Shape lead, Index rows, Index cols) {
  lead.push_back(rows), lead.push_back(cols);
  return lead;
}

/// A box of op(X) as the array has it.
Shape stored(const Operand& x, const Shape& lead, Index rows, Index cols) {
  return x.transpose ? with(lead, cols, rows) : with(lead, rows, cols);
}

}  // namespace

Shape lead_of(const Array& array) { return {array.shape().begin(), array.shape().end() - 2}; }

Shape lead_of_product(const Operand& a, const Operand& b) {
  const Shape one = lead_of(a.array), other = lead_of(b.array);
  const bool longer = one.size() >= other.size();
  Shape lead = longer ? one : other;
  const Shape& fewer = longer ? other : one;
  for (std::size_t d = 0; d < fewer.size(); ++d) {
    Index& extent = lead[lead.size() - fewer.size() + d];
    if (extent != fewer[d] && extent != 1 && fewer[d] != 1)
      throw ShapeError("matmul: A is a stack of " + to_string(one) + " matrices and B of " + to_string(other) +
                       "; extents must be equal, or 1.");
    if (extent == 1) extent = fewer[d];
  }
  return lead;
}

void matmul_stacks(Graph& graph, const Operand& a, const Operand& b, const Array* c_in, const Array& c_out,
                   const MatmulOptions& options) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const Shape lead = lead_of(c_out), together = stretch(a, b, c_out);
  const Index m = a.rows(), n = b.cols(), k = a.cols();
  const ProductTile tile = product_tile(a, b, c_out, count(together));  // the bits: shapes, dtype and layouts alone
  Stages stages(graph, options.checkpoint);
  FinishedTiles finished = stages.tiles(c_out, with(together, tile.rows, tile.cols));
  if (count(c_out.shape()) == 0) return;
  const Box first{Shape(lead.size(), 0), together};
  const Box first_a = lead_box(a.array, first), first_b = lead_box(b.array, first);
  const Superblock size = choose_superblock(a, b, c_out, tile, order_budget(graph), graph.workers(),
                                            {count(first_a.shape), count(first_b.shape), count(together)});
  const auto times = [&](const Operand& x, const Box& box, Index again) {
    return again * count(grid_of(lead, together)) / std::max<Index>(1, count(grid_of(lead_of(x.array), box.shape)));
  };
  KeptOperand left(graph, a, stored(a, first_a.shape, size.a_outer, size.a_depth),
                   times(a, first_a, ceil_div(ceil_div(n, tile.cols), size.tile_cols)));
  KeptOperand right(graph, b, stored(b, first_b.shape, size.b_depth, size.b_outer),
                    times(b, first_b, ceil_div(ceil_div(m, tile.rows), size.tile_rows)));
  if (options.notes) *options.notes = {left.note(), right.note(), left.scratch_bytes() + right.scratch_bytes()};
  const std::complex<double> beta = c_in || options.in_place ? options.beta : 0.0;
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(2 * size.tile_rows * size.tile_cols + 64));
  std::vector<std::size_t> loops(lead.size());
  for (std::size_t d = 0; d < loops.size(); ++d) loops[d] = d;
  for_each_box(whole(lead), together, loops, [&](const Box& some) {
    const Tiled A(left.operand(), {m, tile.rows, size.a_outer}, {k, tile.depth, size.a_depth}, lead_box(a.array, some));
    const Tiled B(right.operand(), {k, tile.depth, size.b_depth}, {n, tile.cols, size.b_outer},
                  lead_box(b.array, some));
    const Tiled C({c_out}, {m, tile.rows, tile.rows}, {n, tile.cols, tile.cols}, some);
    for (const Box& block : C.blocks(size.tile_rows, size.tile_cols)) {
      for (Index step = 0; step < std::max<Index>(1, A.cols()); ++step)
        for (Index i = block.start[0]; i < block.start[0] + block.shape[0]; ++i)
          for (Index j = block.start[1]; j < block.start[1] + block.shape[1]; ++j) {
            const MatrixTile z = C(i, j);
            if (finished.holds(z.region.box)) continue;  // by a dead process
            const MatrixTile x = A(i, step), y = B(step, j);
            if (A.cols() > 0) left.need(x.region), right.need(y.region);
            gemm(graph, options.alpha, x, y, step == 0 ? beta : 1.0, again(z, step + 1 < A.cols()),
                 step == 0 ? c_in : nullptr);
          }
      for (Index i = block.start[0]; i < block.start[0] + block.shape[0]; ++i)
        for (Index j = block.start[1]; j < block.start[1] + block.shape[1]; ++j) finished.finish(C(i, j).region.box);
      finished.offer();
    }
  });
  graph.trust_order(false);
}

}  // namespace flagstone::linalg
