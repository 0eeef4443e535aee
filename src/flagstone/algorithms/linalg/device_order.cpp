#include "flagstone/algorithms/linalg/device_order.hpp"

#include <algorithm>
#include <limits>

#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::linalg {
namespace {

constexpr double disk_bytes_per_second = 1.5e9, link_bytes_per_second = 2.5e10;  // weigh orders alone

/// Bytes of tiles, as a memory holds them.
struct TileBytes {
  double a = 0, b = 0, c = 0;
};

/// Largest sub-block of C that a device holds beside two steps of its operands, the one that moves least.
void choose_sub_block(const ProductShape& shape, const ProductTile& tile, const TileBytes& bytes, double budget,
                      ProductOrder& order) {
  const Index rows = ceil_div(shape.m, tile.rows), cols = ceil_div(shape.n, tile.cols);
  double least = std::numeric_limits<double>::infinity();
  for (Index pi = 1; pi <= rows; ++pi)
    for (Index pj = 1; pj <= cols; ++pj) {
      const auto i = static_cast<double>(pi), j = static_cast<double>(pj);
      if (pi * pj > 1 && i * j * bytes.c + 2 * (i * bytes.a + j * bytes.b) > budget) break;
      const double in = link_bytes(shape, 1, pi * tile.rows, pj * tile.cols).in;
      if (in < least) least = in, order.sub_rows = pi, order.sub_cols = pj;
    }
}

/// Seconds that the disk takes, and beside it the link; the one that is longer counts, and a little of the other.
double seconds_of(double disk, double link) {
  const double of_disk = disk / disk_bytes_per_second, of_link = link / link_bytes_per_second;
  return std::max(of_disk, of_link) + 0.1 * std::min(of_disk, of_link);
}

/// The host's superblock and panels around sub-blocks that are known.
void choose_panels(const ProductShape& shape, const ProductTile& tile, const TileBytes& bytes, double item,
                   double budget, bool c_on_disk, ProductOrder& order) {
  const Index rows = ceil_div(shape.m, tile.rows), cols = ceil_div(shape.n, tile.cols),
              steps = std::max<Index>(1, ceil_div(shape.k, tile.depth));
  const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  const LinkBytes link = link_bytes(shape, item, order.sub_rows * tile.rows, order.sub_cols * tile.cols);
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](Index pi, Index pj, Index panel, double disk, double moved) {
    const double seconds = seconds_of(disk, moved);
    if (seconds >= least) return;
    least = seconds;
    order.size.tile_rows = pi, order.size.tile_cols = pj, order.panel = panel;
  };
  const auto i_of = [&](Index pi) { return static_cast<double>(pi); };
  const double sub_c = i_of(order.sub_rows) * i_of(order.sub_cols) * bytes.c;
  // One panel: rows of A stay while columns of B pass, a sub-block's at a time; where a sub-block is as wide as C they
  // pass, too. C leaves a device while the next sub-block is computed.
  const bool wide = order.sub_cols >= cols;
  for (Index pi = order.sub_rows; pi < rows + order.sub_rows; pi += order.sub_rows) {
    const Index used = std::min(pi, rows);
    const double held = (wide ? i_of(order.sub_rows) * 2.0 : i_of(used) * i_of(steps)) * bytes.a +
                        i_of(order.sub_cols) * bytes.b * (pi > order.sub_rows ? i_of(steps) : 2.0) + sub_c;
    if (held > budget && pi > order.sub_rows) break;
    const bool fits = held <= budget;
    const double times_a = fits ? 1 : i_of(ceil_div(cols, order.sub_cols));
    consider(used, order.sub_cols, steps, item * (m * k * times_a + k * n * i_of(ceil_div(rows, used))),
             link.in + link.out);
  }
  // Several: sums of C stay, panels of both operands pass.
  for (Index pi = order.sub_rows; c_on_disk && pi < rows + order.sub_rows; pi += order.sub_rows)
    for (Index pj = order.sub_cols; pj < cols + order.sub_cols; pj += order.sub_cols) {
      const Index used_i = std::min(pi, rows), used_j = std::min(pj, cols);
      const double each = i_of(used_i) * bytes.a + i_of(used_j) * bytes.b;
      const double left = budget - i_of(used_i) * i_of(used_j) * bytes.c - each;  // the next step is on its way
      const auto panel = static_cast<Index>(left / each);
      if (left <= 0 || panel < 1) break;
      if (panel >= steps) continue;
      const double passes = i_of(ceil_div(steps, panel));
      consider(used_i, used_j, panel,
               item * (m * k * i_of(ceil_div(cols, used_j)) + k * n * i_of(ceil_div(rows, used_i))),
               link.in + link.out + 2 * (passes - 1) * item * m * n);
    }
}

/// Whether boxes of the array are tiles of the product: chunks, or memory.
bool by_tiles(const Array& array) { return array.in_memory() || !reads_any_box(array); }

}  // namespace

LinkBytes link_bytes(const ProductShape& shape, double item, Index rows, Index cols) {
  const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  return {item * (m * k * static_cast<double>(ceil_div(shape.n, cols)) +
                  k * n * static_cast<double>(ceil_div(shape.m, rows))),
          item * m * n};
}

ProductOrder choose_order(const Operand& a, const Operand& b, const Array& c, const ProductTile& tile,
                          std::uint64_t budget, std::uint64_t device_budget, int workers) {
  const ProductShape shape{a.rows(), b.cols(), std::max<Index>(a.cols(), 1)};
  ProductOrder order;
  const bool tiles = by_tiles(a.array) && by_tiles(b.array);
  const std::uint64_t room = device_budget > 0 && !tiles ? std::min(budget, device_budget) : budget;
  order.size = choose_superblock(a, b, c, tile, room, workers);
  order.sub_rows = order.size.tile_rows, order.sub_cols = order.size.tile_cols;
  order.panel = std::max<Index>(1, ceil_div(shape.k, tile.depth));
  if (device_budget == 0 || !tiles) return order;  // rows of flat files come in boxes that are long runs
  const auto item = static_cast<double>(size_of(c.dtype()));
  const auto area = [&](Index rows, Index cols) {
    return item * static_cast<double>(rows) * static_cast<double>(cols);
  };
  const TileBytes bytes{area(tile.rows, tile.depth), area(tile.depth, tile.cols), area(tile.rows, tile.cols)};
  choose_sub_block(shape, tile, bytes, static_cast<double>(device_budget), order);
  choose_panels(shape, tile, bytes, item, static_cast<double>(budget), !c.in_memory(), order);
  return order;
}

}  // namespace flagstone::linalg
