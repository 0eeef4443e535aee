#include "flagstone/algorithms/tiled/tile_tasks.hpp"

#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone::linalg {
namespace {

/// Whether tiles lie column by column (or may: where it makes no difference).
bool by_columns(const Array& x) {
  if (count(x.shape()) == 0) return false;
  if (order_of(x) != 'C') return true;
  if (x.in_memory()) return x.store().memory_strides()[0] <= x.store().memory_strides()[1];
  if (x.chunks() != x.shape()) return false;  // tiles of chunks are put together by rows
  return x.store().run_bytes({1, x.shape()[1]}) < x.store().run_bytes({x.shape()[0], 1});
}

/// Elements of the conjugated copy that BLAS needs of a tile, or 0: it conjugates only what it transposes too, and seen
/// by rows, as C is, a tile that lies by columns is transposed already; and so is all the rest where C lies by columns.
std::size_t conjugated(const TilePart& x, const Array& c) {
  const bool copied = x.op.conjugate && (!x.op.transpose || by_columns(x.array()) || order_of(c) != 'C');
  return copied ? static_cast<std::size_t>(x.rows() * x.cols()) : 0;
}

/// Of no elements: there is nothing to read.
Tile nothing(const Box& used, Dtype dtype) { return {nullptr, dtype, used.shape, {1, 1}, 0}; }

}  // namespace

void gemm(Graph& graph, std::complex<double> alpha, const TilePart& a, const TilePart& b, std::complex<double> beta,
          const TilePart& c, const Array* c_in) {
  const bool has_depth = a.cols() > 0, brings_c = c_in != nullptr;
  const Dtype dtype = c.array().dtype();
  TaskSpec task;
  task.name = "gemm";
  if (has_depth) task.accesses = {read(a.region), read(b.region)};
  if (brings_c) task.accesses.push_back(read({*c_in, c.region.box}));
  task.accesses.push_back(brings_c || beta == 0.0 ? write(c.region) : update(c.region));
  const std::size_t copies = conjugated(a, c.array()) + conjugated(b, c.array());
  if (copies) task.accesses.push_back(scratch(copies * size_of(dtype) + 4096));
  const double flops = 2.0 * c.rows() * c.cols() * static_cast<double>(a.cols());
  task.cost = {is_complex(dtype) ? 4 * flops : flops, 0, real_part_of(dtype) == Dtype::float64};
  task.body = [=, used_a = a.used, used_b = b.used, op_a = a.op, op_b = b.op](std::span<const Tile> tiles) {
    std::size_t next = has_depth ? 2 : 0;
    const Tile* old = brings_c ? &tiles[next++] : nullptr;
    const Tile& result = tiles[next++];
    std::byte* scratch = copies ? tiles[next].data : nullptr;
    if (old) copy(*old, result);
    kernel::gemm(alpha, has_depth ? subtile(tiles[0], used_a) : nothing(used_a, dtype), op_a,
                 has_depth ? subtile(tiles[1], used_b) : nothing(used_b, dtype), op_b, beta, result, scratch);
  };
  graph.add(std::move(task));
}

}  // namespace flagstone::linalg
