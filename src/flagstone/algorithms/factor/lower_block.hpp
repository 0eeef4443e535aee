#pragma once
// The lower triangle of tiles in blocks that stay in memory together: the order of a left-looking factorization.
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "flagstone/base/dtype.hpp"

namespace flagstone::linalg {

/// Tiles [row, row + rows) x [col, col + cols) on and below the diagonal.
struct LowerBlock {
  Index row = 0, rows = 1, col = 0, cols = 1;

  Index row_end() const { return row + rows; }
  Index col_end() const { return col + cols; }
  /// Its (i, j) that are `wanted(i, j)`, column by column: one is finished before the next one begins.
  std::vector<std::pair<Index, Index>> tiles(const std::function<bool(Index, Index)>& wanted) const;
};

struct BlockExtent {
  Index rows = 1, cols = 1;  // tiles
};

/// Panels of columns from left to right, each from the diagonal down.
std::vector<LowerBlock> lower_blocks(Index n, BlockExtent extent);
/// Tiles of the factor that are read again: those to the left of each block, in its rows and in the rows of its
/// columns.
double tiles_read(Index n, BlockExtent extent);
/// The extent with the least estimated seconds whose tiles, with those of the next steps on their way, fit `budget`.
BlockExtent choose_lower_block(Index n, double tile_bytes, double tile_flops, std::uint64_t budget, int workers);

}  // namespace flagstone::linalg
