#include "flagstone/algorithms/linalg/matmul.hpp"

#include <algorithm>
#include <array>

#include "flagstone/algorithms/linalg/device_order.hpp"
#include "flagstone/algorithms/linalg/kept_operand.hpp"
#include "flagstone/algorithms/linalg/stack.hpp"
#include "flagstone/algorithms/linalg/superblock.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/partial_tiles.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone::linalg {
namespace {

std::string shape_text(Index rows, Index cols) { return std::to_string(rows) + " x " + std::to_string(cols); }

/// A is read in strips of its rows, B in strips of its columns; C in its tiles.
std::array<Tiled, 3> tiled(const Operand& a, const Operand& b, const Array& c, const ProductTile& tile,
                           const Superblock& block) {
  const Index m = a.rows(), n = b.cols(), k = a.cols();
  return {Tiled(a, {m, tile.rows, block.a_outer}, {k, tile.depth, block.a_depth}),
          Tiled(b, {k, tile.depth, block.b_depth}, {n, tile.cols, block.b_outer}),
          Tiled({c}, {m, tile.rows, tile.rows}, {n, tile.cols, tile.cols})};
}

/// Which steps of C(i, j) add something: all, but where a tile of an operand lies beside its triangle (trmm). The first
/// is taken always: then C holds β C whenever the block is saved.
class Steps {
 public:
  Steps(const Tiled& a, const Tiled& b)
      : a_(static_cast<std::size_t>(a.rows())), b_(static_cast<std::size_t>(b.cols())) {
    if (a_.empty() || b_.empty()) return;
    for (std::size_t i = 0; i < a_.size(); ++i)
      for (Index k = 0; k < a.cols(); ++k) a_[i].push_back(is_zero(a(static_cast<Index>(i), k)));
    for (std::size_t j = 0; j < b_.size(); ++j)
      for (Index k = 0; k < b.rows(); ++k) b_[j].push_back(is_zero(b(k, static_cast<Index>(j))));
  }
  bool add(Index i, Index j, Index k) const {
    const auto at = [k](const std::vector<bool>& zero) { return k > 0 && zero[static_cast<std::size_t>(k)]; };
    return !at(a_[static_cast<std::size_t>(i)]) && !at(b_[static_cast<std::size_t>(j)]);
  }
  /// Whether one of the steps [k, end) does.
  bool any(Index i, Index j, Index k, Index end) const {
    while (k < end && !add(i, j, k)) ++k;
    return k < end;
  }

 private:
  std::vector<std::vector<bool>> a_, b_;  // zero tiles of a row of A, of a column of B, by step
};

/// What a device holds at a time, in rows of sub-blocks.
std::vector<Box> parts_of(const Box& block, const ProductOrder& order) {
  std::vector<Box> parts;
  for_each_box(block, {order.sub_rows, order.sub_cols}, {0, 1}, [&](const Box& part) { parts.push_back(part); });
  return parts;
}

/// Tasks of one sweep over what stays in memory: C alone; beside a device rows of A too, until columns of B have
/// passed.
Index tasks_ahead(const ProductOrder& order, bool device) {
  constexpr Index most = 2048;  // a graph knows some KiB of each
  const Index tiles = order.size.tile_rows * order.size.tile_cols;
  return device ? std::min(most, tiles * order.panel) : tiles;
}

/// A box of op(X) as the array has it.
Shape stored(const Operand& x, Index rows, Index cols) { return x.transpose ? Shape{cols, rows} : Shape{rows, cols}; }

}  // namespace

Shape check_matmul(const Operand& a, const Operand& b, const Array* c) {
  const auto matrices = [](const Operand& x, const char* name) {
    const std::size_t ndim = x.array.ndim();
    if (ndim < 2)
      throw ShapeError(std::string("matmul: ") + name + " has " + std::to_string(ndim) +
                       " dimensions; two are needed, or more of a stack of matrices.");
    if (ndim > 2 && x.transpose)
      throw ShapeError(std::string("matmul: ") + name + " is the view of " + std::to_string(ndim) +
                       " dimensions that reverses all of them; a stack is taken as it is stored, so store it in "
                       "another order (flagstone.transpose).");
    const Dtype t = x.array.dtype();
    if (t == Dtype::float16)
      throw ShapeError(std::string("matmul: ") + name + " is " + std::string(name_of(t)) +
                       "; float32, float64, complex64, complex128, integers or booleans are needed.");
  };
  matrices(a, "A");
  matrices(b, "B");
  if (a.cols() != b.rows())
    throw ShapeError("matmul: A is " + shape_text(a.rows(), a.cols()) + " and B is " + shape_text(b.rows(), b.cols()) +
                     "; A's columns must equal B's rows (" + std::to_string(a.cols()) + ", " +
                     std::to_string(b.rows()) + ").");
  const auto same_dtype = [&](const Array& other, const char* name) {
    if (other.dtype() != a.array.dtype())
      throw ShapeError(std::string("matmul: A is ") + std::string(name_of(a.array.dtype())) + " and " + name + " is " +
                       std::string(name_of(other.dtype())) + "; one dtype is needed, convert one of them.");
  };
  same_dtype(b.array, "B");
  Shape product = lead_of_product(a, b);
  product.push_back(a.rows()), product.push_back(b.cols());
  if (!c) return product;
  same_dtype(*c, "C");
  if (c->shape() != product)
    throw ShapeError("matmul: the product is " + to_string(product) + " and C is " + to_string(c->shape()) +
                     "; they must be equal.");
  if (product.size() > 2 && order_of(*c) != 'C')
    throw ShapeError("matmul: C is a stack of matrices stored in another order than by rows; store it by rows.");
  return product;
}

void matmul(Graph& graph, const Operand& a, const Operand& b, const Array* c_in, const Array& c_out,
            const MatmulOptions& options) {
  check_matmul(a, b, &c_out);
  if (c_in) check_matmul(a, b, c_in);
  if (c_out.ndim() > 2) return matmul_stacks(graph, a, b, c_in, c_out, options);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  // The bits: shapes, dtype, layouts and kinds of devices alone.
  const ProductTile tile = product_tile(a, b, c_out, 1, graph.large_tiles());
  Stages stages(graph, options.checkpoint);
  PartialTiles finished = stages.tiles(c_out, {tile.rows, tile.cols}, a.cols(), tile.depth);
  const ProductOrder order =  // all that budgets decide
      choose_order(a, b, c_out, tile, graph.budget(), graph.device_budget(), graph.workers());
  const Superblock& size = order.size;
  KeptOperand left(graph, a, stored(a, size.a_outer, size.a_depth),
                   ceil_div(ceil_div(b.cols(), tile.cols), size.tile_cols));
  KeptOperand right(graph, b, stored(b, size.b_depth, size.b_outer),
                    ceil_div(ceil_div(a.rows(), tile.rows), size.tile_rows));
  if (options.notes) *options.notes = {left.note(), right.note(), left.scratch_bytes() + right.scratch_bytes()};
  const auto [A, B, C] = tiled(left.operand(), right.operand(), c_out, tile, size);
  const std::complex<double> beta = c_in || options.in_place ? options.beta : 0.0;
  graph.trust_order(true);
  const Index steps = std::max<Index>(1, A.cols());
  const Steps needed(A, B);
  const auto step = [&](Index k, const std::vector<std::pair<Index, Index>>& tiles) {
    for (const auto& [i, j] : tiles) {
      if (!needed.add(i, j, k)) continue;
      const MatrixTile x = A(i, k), y = B(k, j);
      if (A.cols() > 0) left.need(x.region), right.need(y.region);
      gemm(graph, options.alpha, x, y, k == 0 ? beta : 1.0, again(C(i, j), needed.any(i, j, k + 1, A.cols())),
           k == 0 ? c_in : nullptr);
    }
  };
  graph.look_ahead(static_cast<std::size_t>(2 * tasks_ahead(order, graph.device_budget() > 0) + 64));
  for (const Box& block : C.blocks(size.tile_rows, size.tile_cols)) {
    const std::vector<Box> parts = parts_of(block, order);
    if (order.one_panel(steps)) {  // what a dead process finished is skipped
      for (const Box& part : parts) {
        for (Index k = 0; k < steps; ++k) step(k, finished.open(part, k));
        finished.close(part);
      }
      continue;
    }
    for (Index first = 0; first < steps; first += order.panel) {
      finished.offer(block, first);
      for (const Box& part : parts)
        for (Index k = first; k < std::min(steps, first + order.panel); ++k) step(k, finished.tiles(part, k));
    }
    finished.close(block);
  }
  graph.trust_order(false);
}

Shape output_chunks(Index rows, Index cols, Dtype dtype) { return default_chunks({rows, cols}, dtype); }

}  // namespace flagstone::linalg
