#include "flagstone/algorithms/factor/lower_block.hpp"

#include <algorithm>
#include <limits>

namespace flagstone::linalg {
namespace {

// Rates that weigh bytes against idle workers when orders are compared; never arithmetic.
constexpr double disk_bytes_per_second = 1.5e9, worker_flops_per_second = 4e10;

}  // namespace

std::vector<std::pair<Index, Index>> LowerBlock::tiles(const std::function<bool(Index, Index)>& wanted) const {
  std::vector<std::pair<Index, Index>> found;
  for (Index j = col; j < col_end(); ++j)
    for (Index i = std::max(row, j); i < row_end(); ++i)
      if (wanted(i, j)) found.emplace_back(i, j);
  return found;
}

std::vector<LowerBlock> lower_blocks(Index n, BlockExtent extent) {
  std::vector<LowerBlock> blocks;
  for (Index col = 0; col < n; col += extent.cols)
    for (Index row = col; row < n; row += extent.rows) {
      const Index rows = std::min(extent.rows, n - row);
      blocks.push_back({row, rows, col, std::min({extent.cols, n - col, row + rows - col})});
    }
  return blocks;
}

double tiles_read(Index n, BlockExtent extent) {
  double read = 0;
  for (const LowerBlock& block : lower_blocks(n, extent)) {
    const auto above = static_cast<double>(std::min(block.cols, block.row - block.col));  // rows of columns, elsewhere
    read += static_cast<double>(block.col) * (static_cast<double>(block.rows) + above) + above * (above + 1) / 2;
  }
  return read;
}

BlockExtent choose_lower_block(Index n, double tile_bytes, double tile_flops, std::uint64_t budget, int workers) {
  const double room = static_cast<double>(budget) / tile_bytes, tiles = static_cast<double>(n);
  const double flops = tiles * tiles * tiles / 6 * tile_flops;
  BlockExtent best;
  double least = std::numeric_limits<double>::infinity();
  for (Index rows = 1; rows <= n; ++rows)
    for (Index cols = 1; cols <= rows; ++cols) {
      // Two steps of operands: one in use, one on its way; and what workers finish meanwhile.
      const auto held = static_cast<double>(rows * cols + 2 * (rows + cols) + workers);
      if (held > room && rows * cols > 1) break;
      const double side_by_side = static_cast<double>(std::min<Index>(workers, rows * cols));
      const double seconds = flops / worker_flops_per_second / side_by_side +
                             tiles_read(n, {rows, cols}) * tile_bytes / disk_bytes_per_second;
      if (seconds < least) least = seconds, best = {rows, cols};
    }
  return best;
}

}  // namespace flagstone::linalg
