#include "flagstone/algorithms/linalg/superblock.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::linalg {
namespace {

// Rates that weigh bytes against requests and against idle workers when orders are compared; never arithmetic.
constexpr double disk_bytes_per_second = 1.5e9, seconds_per_run = 4e-6, worker_flops_per_second = 1e11;
// Of a symmetric product: sums at a time, enough for any number of workers; steps of one, or adding up is felt.
constexpr Index wanted_chains = 16, least_chain = 8;
constexpr std::size_t wanted_run = 16 * KiB;  // shorter runs cost the disk more than the bytes they carry

/// Which way a flat file runs: along the inner dimension, across it, or neither (chunks; memory).
enum class Run { blocks, along_depth, along_outer, memory };

bool is_flat(const Array& array) { return !array.in_memory() && takes_any_box(array); }

/// Of the last two dimensions, which are those of a matrix.
Index extent(const Array& array, int d) { return array.shape()[array.ndim() - 2 + static_cast<std::size_t>(d)]; }
Index chunk(const Array& array, int d) { return array.chunks()[array.ndim() - 2 + static_cast<std::size_t>(d)]; }

/// Is the stored last dimension contiguous (C order)? A row of a Fortran-order file is many runs.
bool rows_are_runs(const Array& array) {
  Shape row(array.ndim(), 1);
  row.back() = extent(array, 1);
  return array.store().run_bytes(row) >= static_cast<std::size_t>(row.back()) * size_of(array.dtype());
}

/// `outer` is the dimension of a stored matrix that the product keeps (0 or 1).
Run run_of(const Array& array, int outer) {
  if (array.in_memory()) return Run::memory;
  if (!reads_any_box(array)) return Run::blocks;
  const int contiguous = rows_are_runs(array) ? 1 : 0;
  return contiguous == outer ? Run::along_outer : Run::along_depth;
}

/// A flat C whose rows begin anywhere in a page. A tile that is narrower than a row then shares a page at both ends of
/// each of its rows with its neighbours; such pages pass through the page cache one after the other, and are read
/// first.
bool rows_share_pages(const Array& c) {
  const std::size_t row = static_cast<std::size_t>(extent(c, 1)) * size_of(c.dtype());
  return !c.in_memory() && is_flat(c) && row % page_bytes != 0 && rows_are_runs(c);
}

int outer_of_a(const Operand& a) { return a.transpose ? 1 : 0; }
int outer_of_b(const Operand& b) { return b.transpose ? 0 : 1; }

/// Tiles of one triangle, its diagonal with them.
Index pairs_of(Index tiles) { return tiles * (tiles + 1) / 2; }

/// The multiple of `unit` nearest below `edge`, at least one unit, no longer than the extent needs.
Index fit(Index edge, Index unit, Index extent) {
  const Index fitted = unit >= edge ? unit : edge / unit * unit;
  return std::max<Index>(1, std::min(fitted, ceil_div(extent, unit) * unit));
}

struct Stream {
  Run run;
  Index tile_outer, depth;  // a task's part
  Index extent_outer, extent_depth;
  double bytes_per_element;
};

/// The box in which a stream is read for `outer_tiles` tiles of the superblock with strips of `depths` steps.
void shape_box(const Stream& stream, Index outer_tiles, Index depths, Index& outer, Index& depth) {
  outer = stream.run == Run::along_outer ? std::min(stream.extent_outer, outer_tiles * stream.tile_outer)
                                         : std::min(stream.extent_outer, stream.tile_outer);
  depth = std::min(stream.extent_depth, stream.run == Run::along_depth ? depths * stream.depth : stream.depth);
}

/// Memory for one step of a stream and for the box that is loading meanwhile.
std::uint64_t stream_bytes(const Stream& stream, Index outer_tiles, Index outer, Index depth) {
  if (stream.run == Run::memory) return 0;
  // A flat box is read with its pages; rows of a strip are padded to whole pages at both ends.
  const double padding = stream.run == Run::along_depth   ? 2 * static_cast<double>(page_bytes) * outer
                         : stream.run == Run::along_outer ? 2 * static_cast<double>(page_bytes) * depth
                                                          : 0;
  const double box = static_cast<double>(outer) * depth * stream.bytes_per_element + padding;
  const Index boxes = ceil_div(std::min(stream.extent_outer, outer_tiles * stream.tile_outer), outer);
  const Index ahead = stream.run == Run::along_depth ? 1 : boxes;
  return static_cast<std::uint64_t>(box * static_cast<double>(boxes + ahead));
}

/// Seconds that the disk spends on a stream that is read `times` times.
double stream_seconds(const Stream& stream, Index outer, Index depth, Index times) {
  if (stream.run == Run::memory) return 0;
  const double elements = static_cast<double>(stream.extent_outer) * stream.extent_depth * times;
  const Index run = stream.run == Run::along_depth ? depth : stream.run == Run::along_outer ? outer : outer * depth;
  return elements * stream.bytes_per_element / disk_bytes_per_second +
         elements / static_cast<double>(run) * seconds_per_run;
}

}  // namespace

ProductTile product_tile(const Operand& a, const Operand& b, const Array& c, Index together, bool large) {
  // Two workers with single-threaded BLAS reach the two-threaded rate from 2048² (float32) on; elsewhere 16 MiB a tile.
  // An H200 multiplies float64 at 51 TF/s by 1024³, at 61 by 2048³; float32 at 37 and 50.
  Index edge = size_of(c.dtype()) <= (large ? 8 : 4) ? 2048 : 1024;
  for (Index most = 1; most < together && edge > 32; most *= 4) edge /= 2;
  const Index m = extent(c, 0), n = extent(c, 1), k = a.cols();
  ProductTile tile;
  const auto unit = [&](int d) { return c.in_memory() || is_flat(c) ? Index{1} : chunk(c, d); };
  tile.rows = fit(edge, unit(0), m);
  tile.cols = fit(edge, unit(1), n);
  if (n > edge && rows_share_pages(c)) {  // whole rows: 512 of them keep BLAS at its rate
    tile.rows = std::min<Index>(m, 512);
    const Index widest = static_cast<Index>(64 * MiB / (512 * size_of(c.dtype())));
    tile.cols = ceil_div(n, ceil_div(n, widest));
  }
  // Depth: whole chunks of the operands, half an edge where rows are read as runs (thinner panels fit more budgets).
  Index step = 1;
  for (const auto& [operand, inner] : {std::pair{&a, 1 - outer_of_a(a)}, std::pair{&b, 1 - outer_of_b(b)}})
    if (run_of(operand->array, 1 - inner) == Run::blocks) step = std::max(step, chunk(operand->array, inner));
  const bool flat = step == 1;
  tile.depth = fit(large ? edge : flat ? edge / 4 : edge / 2, step, std::max<Index>(k, 1));
  return tile;
}

ProductTile symmetric_tile(const Operand& a, const Operand& b, const Array& c) {
  ProductTile tile = product_tile(a, b, c);
  const Index n = c.shape()[0], edge = c.dtype() == Dtype::float32 ? 2048 : 1024;
  const Index unit = c.in_memory() || is_flat(c) ? 1 : std::lcm(c.chunks()[0], c.chunks()[1]);
  tile.rows = tile.cols = fit(edge, unit, n);
  // Smaller tiles, rather than several sums of each, keep all workers busy: four of half the edge are no more memory.
  if (pairs_of(ceil_div(n, std::max<Index>(1, tile.rows))) < wanted_chains && n > edge / 2)
    tile.rows = tile.cols = fit(edge / 2, unit, n);
  // Few columns: a step is as long as makes a request of 2 MiB, or a task is too little work.
  const auto row = static_cast<Index>(size_of(c.dtype())) * std::max<Index>(1, std::min(tile.rows, n));
  tile.depth = fit(std::max(tile.depth, static_cast<Index>(2 * MiB) / row), tile.depth, std::max<Index>(a.cols(), 1));
  return tile;
}

namespace {

/// Of all superblocks, or with `half` of the square ones.
Superblock choose(const Operand& a, const Operand& b, const Array& c, const ProductTile& tile, std::uint64_t budget,
                  int workers, const Matrices& each, const SymmetricSums* half) {
  const Index m = extent(c, 0), n = extent(c, 1), k = std::max<Index>(a.cols(), 1);
  const auto item = static_cast<double>(size_of(c.dtype()));
  const auto count_a = static_cast<double>(each.a), count_b = static_cast<double>(each.b);
  const Stream stream_a{run_of(a.array, outer_of_a(a)), tile.rows, tile.depth, m, k, item * count_a};
  const Stream stream_b{run_of(b.array, outer_of_b(b)), tile.cols, tile.depth, n, k, item * count_b};
  const double compute = 2.0 * m * n * static_cast<double>(k) / worker_flops_per_second;
  Superblock best;
  double least = std::numeric_limits<double>::infinity();
  const Index rows = ceil_div(m, tile.rows), cols = ceil_div(n, tile.cols), steps = ceil_div(k, tile.depth);
  for (Index pi = 1; pi <= rows; ++pi) {
    for (Index pj = half ? pi : 1; pj <= (half ? pi : cols); ++pj) {
      const bool triangle = half && pi >= rows;  // the one superblock lies on the diagonal: its two panels are one
      const Index kept = triangle ? pairs_of(pi) : pi * pj;
      const Index sums = (half ? half->sums : 1) - (c.in_memory() ? 1 : 0);
      const double c_bytes =
          item * static_cast<double>(each.c * sums * kept) * static_cast<double>(tile.rows * tile.cols);
      if (pi * pj > 1 && c_bytes > static_cast<double>(budget)) break;
      for (Index strip = 1; strip <= std::min<Index>(steps, 64); strip *= 2) {
        Superblock made{pi, pj};
        shape_box(stream_a, pi, strip, made.a_outer, made.a_depth);
        shape_box(stream_b, pj, strip, made.b_outer, made.b_depth);
        // Of rank 2k both operands come as rows and as columns; on the diagonal the two are one.
        const int of_a = half ? half->operands : 1, of_b = triangle ? 0 : of_a;
        made.bytes = static_cast<std::uint64_t>(c_bytes) +
                     static_cast<std::uint64_t>(of_a) * stream_bytes(stream_a, pi, made.a_outer, made.a_depth) +
                     static_cast<std::uint64_t>(of_b) * stream_bytes(stream_b, pj, made.b_outer, made.b_depth);
        const bool smallest = pi == 1 && pj == 1 && strip == 1;
        if (made.bytes > budget && !smallest) break;
        const double seconds = compute / static_cast<double>(std::min<Index>(workers, pi * pj)) +
                               stream_seconds(stream_a, made.a_outer, made.a_depth, ceil_div(cols, pj)) +
                               stream_seconds(stream_b, made.b_outer, made.b_depth, ceil_div(rows, pi));
        if (seconds < least) least = seconds, best = made;
        const bool strips = stream_a.run == Run::along_depth || stream_b.run == Run::along_depth;
        if (!strips || std::min(made.a_depth, made.b_depth) * item >= static_cast<double>(16 * wanted_run)) break;
      }
    }
  }
  return best;
}

}  // namespace

Superblock choose_superblock(const Operand& a, const Operand& b, const Array& c, const ProductTile& tile,
                             std::uint64_t budget, int workers, const Matrices& each) {
  return choose(a, b, c, tile, budget, workers, each, nullptr);
}

Superblock choose_square_superblock(const Operand& a, const Operand& b, const Array& c, const ProductTile& tile,
                                    std::uint64_t budget, int workers, const SymmetricSums& half) {
  return choose(a, b, c, tile, budget, workers, {}, &half);
}

Index rank_k_groups(Index tiles, Index steps) {
  return std::max<Index>(1,
                         std::min(ceil_div(wanted_chains, std::max<Index>(1, pairs_of(tiles))), steps / least_chain));
}

}  // namespace flagstone::linalg
