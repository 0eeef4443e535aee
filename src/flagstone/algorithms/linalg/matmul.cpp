#include "flagstone/algorithms/linalg/matmul.hpp"

#include <algorithm>
#include <optional>

#include "flagstone/algorithms/linalg/partial_sums.hpp"
#include "flagstone/algorithms/linalg/superblock.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone::linalg {
namespace {

std::string shape_text(Index rows, Index cols) { return std::to_string(rows) + " x " + std::to_string(cols); }

/// The stored box of op(X)'s rows [r, r + rows) and columns [c, c + cols).
Box stored_box(const Operand& x, Index r, Index rows, Index c, Index cols) {
  return x.transpose ? Box{{c, r}, {cols, rows}} : Box{{r, c}, {rows, cols}};
}

/// Whether tiles lie column by column (or may: where it makes no difference).
bool by_columns(const Array& x) {
  if (count(x.shape()) == 0) return false;
  if (order_of(x) != 'C') return true;
  if (x.in_memory()) return x.store().memory_strides()[0] <= x.store().memory_strides()[1];
  if (x.chunks() != x.shape()) return false;  // tiles of chunks are put together by rows
  return x.store().run_bytes({1, x.shape()[1]}) < x.store().run_bytes({x.shape()[0], 1});
}

/// Whether BLAS needs a conjugated copy: it conjugates only what it transposes too, and seen by rows, as C is, a tile
/// that lies by columns is transposed already; and so is all the rest where C lies by columns.
bool copied(const Operand& x, const Array& c) {
  return x.conjugate && (!x.transpose || by_columns(x.array) || order_of(c) != 'C');
}

/// A span of one dimension and the box that it is read in: the box holds [start, start + extent), the task uses
/// `offset` into it.
struct Span {
  Index start, extent, box_start, box_extent;

  static Span of(Index start, Index step, Index box, Index end) {
    const Index box_start = start / box * box;
    return {start, std::min(step, end - start), box_start, std::min(box, end - box_start)};
  }
  Index offset() const { return start - box_start; }
};

/// Boxes restart at every superblock, so that a box never straddles two of them.
struct Step {
  Span row, col, a_depth, b_depth;
};

struct Product {
  Operand a, b;
  Array c_out;
  const Array* c_in;
  MatmulOptions options;
  ProductTile tile;
  Index k;

  /// `partial`: sums over everything before this step, where the first ones were computed by a dead process.
  void add(Graph& graph, const Step& step, bool first, const std::optional<Region>& partial) const;
};

/// C(i, j) := alpha A(i, k) B(k, j) + C(i, j); the first step of each tile brings beta C in.
/// Cost: 2 rows cols depth flops.
void Product::add(Graph& graph, const Step& step, bool first, const std::optional<Region>& partial) const {
  const auto [row, col, a_depth, b_depth] = step;
  const Box c_box{{row.start, col.start}, {row.extent, col.extent}};
  const bool has_depth = a_depth.extent > 0;
  const bool brings_c = partial || (first && c_in != nullptr);
  const std::complex<double> factor = partial ? 1.0 : options.beta;  // of what is brought
  const bool keeps_c = options.in_place && options.beta != 0.0;
  TaskSpec task;
  task.name = "gemm";
  if (has_depth) {
    task.accesses.push_back(
        read({a.array, stored_box(a, row.box_start, row.box_extent, a_depth.box_start, a_depth.box_extent)}));
    task.accesses.push_back(
        read({b.array, stored_box(b, b_depth.box_start, b_depth.box_extent, col.box_start, col.box_extent)}));
  }
  if (brings_c) task.accesses.push_back(read(partial ? *partial : Region{*c_in, c_box}));
  task.accesses.push_back(first && !keeps_c ? write({c_out, c_box}) : update({c_out, c_box}));
  std::size_t conjugated = 0;  // BLAS conjugates only together with a transposition
  if (copied(a, c_out)) conjugated += static_cast<std::size_t>(row.extent * a_depth.extent);
  if (copied(b, c_out)) conjugated += static_cast<std::size_t>(col.extent * b_depth.extent);
  const std::size_t item = size_of(c_out.dtype());
  if (conjugated) task.accesses.push_back(scratch(conjugated * item + 4096));
  const double flops = 2.0 * row.extent * col.extent * static_cast<double>(a_depth.extent);
  task.cost = {is_complex(c_out.dtype()) ? 4 * flops : flops, 0, real_part_of(c_out.dtype()) == Dtype::float64};
  task.body = [step, has_depth, brings_c, first, keeps_c, conjugated, factor,
               op_a = kernel::Op{a.transpose, a.conjugate}, op_b = kernel::Op{b.transpose, b.conjugate},
               options = options](std::span<const Tile> tiles) {
    const auto& [row, col, a_depth, b_depth] = step;
    std::size_t next = has_depth ? 2 : 0;
    const Tile* old = brings_c ? &tiles[next++] : nullptr;
    const Tile& c = tiles[next++];
    std::byte* scratch = conjugated ? tiles[next].data : nullptr;
    const auto box = [](bool transpose, Index r, Index rows, Index q, Index cols) {
      return transpose ? Box{{q, r}, {cols, rows}} : Box{{r, q}, {rows, cols}};
    };
    Tile part_a{nullptr, c.dtype, box(op_a.transpose, 0, row.extent, 0, 0).shape, {1, 1}, 0}, part_b = part_a;
    part_b.shape = box(op_b.transpose, 0, 0, 0, col.extent).shape;
    if (has_depth) {
      part_a = subtile(tiles[0], box(op_a.transpose, row.offset(), row.extent, a_depth.offset(), a_depth.extent));
      part_b = subtile(tiles[1], box(op_b.transpose, b_depth.offset(), b_depth.extent, col.offset(), col.extent));
    }
    if (old) copy(*old, c);
    const std::complex<double> beta = !first ? 1.0 : old ? factor : keeps_c ? options.beta : 0.0;
    kernel::gemm(options.alpha, part_a, op_a, part_b, op_b, beta, c, scratch);
  };
  graph.add(std::move(task));
}

}  // namespace

void check_matmul(const Operand& a, const Operand& b, const Array* c) {
  const auto two_d = [](const Array& array, const char* name) {
    if (array.ndim() != 2)
      throw ShapeError(std::string("matmul: ") + name + " has " + std::to_string(array.ndim()) +
                       " dimensions; two are needed.");
    const Dtype t = array.dtype();
    if (t != Dtype::float32 && t != Dtype::float64 && !is_complex(t))
      throw ShapeError(std::string("matmul: ") + name + " is " + std::string(name_of(t)) +
                       "; float32, float64, complex64 or complex128 is needed.");
  };
  two_d(a.array, "A");
  two_d(b.array, "B");
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
  if (!c) return;
  two_d(*c, "C");
  same_dtype(*c, "C");
  if (c->shape()[0] != a.rows() || c->shape()[1] != b.cols())
    throw ShapeError("matmul: the product is " + shape_text(a.rows(), b.cols()) + " and C is " +
                     shape_text(c->shape()[0], c->shape()[1]) + "; they must be equal.");
}

void matmul(Graph& graph, const Operand& a, const Operand& b, const Array* c_in, const Array& c_out,
            const MatmulOptions& options) {
  check_matmul(a, b, &c_out);
  if (c_in) check_matmul(a, b, c_in);
  const Product product{a, b, c_out, c_in, options, product_tile(a, b, c_out), a.cols()};
  const auto& tile = product.tile;
  // A tile is the same whatever the memory limit, a superblock is not.
  FinishedTiles finished(graph, options.checkpoint, c_out, {tile.rows, tile.cols});
  const Superblock block = choose_superblock(a, b, c_out, tile, graph.budget(), graph.workers());
  const Index m = a.rows(), n = b.cols(), k = a.cols();
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(2 * block.tile_rows * block.tile_cols + 64));
  const Index block_rows = block.tile_rows * tile.rows, block_cols = block.tile_cols * tile.cols;
  PartialSums partial(graph, finished, c_out, tile, k);
  for (Index i0 = 0; i0 < m; i0 += block_rows)
    for (Index j0 = 0; j0 < n; j0 += block_cols) {
      const Index i1 = std::min(m, i0 + block_rows), j1 = std::min(n, j0 + block_cols);
      const Box whole_block{{i0, j0}, {i1 - i0, j1 - j0}};
      for (Index p = 0; p < std::max<Index>(k, 1); p += tile.depth) {
        partial.offer(whole_block, p);
        for (Index i = i0; i < i1; i += tile.rows)
          for (Index j = j0; j < j1; j += tile.cols) {
            const Index begins = partial.begins(i, j);
            if (p < begins || finished.holds({{i, j}, {1, 1}})) continue;
            product.add(graph,
                        {Span::of(i, tile.rows, block.a_outer, m), Span::of(j, tile.cols, block.b_outer, n),
                         Span::of(p, tile.depth, block.a_depth, k), Span::of(p, tile.depth, block.b_depth, k)},
                        p == begins, begins > 0 && p == begins ? std::optional(partial.region(i, j)) : std::nullopt);
          }
      }
      partial.end();
      finished.finish(whole_block);
      finished.offer();
    }
  graph.trust_order(false);
}

Shape output_chunks(Index rows, Index cols, Dtype dtype) { return default_chunks({rows, cols}, dtype); }

}  // namespace flagstone::linalg
