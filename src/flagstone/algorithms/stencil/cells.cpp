#include "flagstone/algorithms/stencil/cells.hpp"

#include <algorithm>

#include "flagstone/base/grid.hpp"

namespace flagstone::stencil {

Axes cell_of(const Problem& problem, const Array& array, const Axes& cell) {
  if (array.in_memory() || array.store().unpack_bytes() == 0) return cell;
  Axes chunk = problem.extents(array.chunks());
  for (std::size_t d = 0; d < 3; ++d) chunk[d] = std::clamp<Index>(chunk[d], 1, problem.space.shape[d]);
  return chunk;
}

std::vector<Piece> Cells::read_under(TaskSpec& task, const Range3& range, const RegionOf& region) const {
  std::vector<Piece> pieces;
  Axes first, last, at;
  const auto image = [&](std::size_t d, Index index) {
    const Index n = problem_.space.shape[d];
    return index >= 0 ? index / n : -((-index + n - 1) / n);
  };
  for (std::size_t d = 0; d < 3; ++d) first[d] = image(d, range.first[d]), last[d] = image(d, range.last[d] - 1) + 1;
  at = first;
  do {
    Axes shift;
    Range3 part = problem_.space.whole();
    for (std::size_t d = 0; d < 3; ++d) {
      shift[d] = at[d] * problem_.space.shape[d];
      part.first[d] = std::max(part.first[d], range.first[d] - shift[d]);
      part.last[d] = std::min(part.last[d], range.last[d] - shift[d]);
    }
    add_cells(task, region, part, shift, pieces);
  } while (advance(at, first, last));
  return pieces;
}

void Cells::add_cells(TaskSpec& task, const RegionOf& region, const Range3& part, const Axes& shift,
                      std::vector<Piece>& pieces) const {
  Axes first, last;
  for (std::size_t d = 0; d < 3; ++d) first[d] = part.first[d] / cell_[d], last[d] = ceil_div(part.last[d], cell_[d]);
  Axes at = first;
  do {
    Piece piece{static_cast<std::uint32_t>(task.accesses.size()), {}, shift};
    for (std::size_t d = 0; d < 3; ++d) {
      piece.cell.first[d] = at[d] * cell_[d];
      piece.cell.last[d] = std::min(problem_.space.shape[d], piece.cell.first[d] + cell_[d]);
    }
    task.accesses.push_back(read(region(piece.cell)));
    pieces.push_back(piece);
  } while (advance(at, first, last));
}

void gather(const Problem& problem, const std::vector<Piece>& pieces, std::span<const Tile> tiles,
            const kernel::Points& to, const Range3& range) {
  for (const Piece& piece : pieces) {
    Range3 there = piece.cell;
    for (std::size_t d = 0; d < 3; ++d) there.first[d] += piece.shift[d], there.last[d] += piece.shift[d];
    kernel::copy_points(points_of(problem, tiles[piece.access], piece.cell, piece.shift), to,
                        kernel::intersect(there, range), problem.space.item);
  }
}

}  // namespace flagstone::stencil
