#include "flagstone/algorithms/stencil/field/cells.hpp"

#include <algorithm>
#include <numeric>

#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::stencil {

Axes result_units(const Problem& problem) {
  Axes unit{1, 1, 1};
  for (const Array& array : problem.to) {
    if (array.in_memory() || takes_any_box(array)) continue;
    const Axes chunk = problem.extents(array.chunks());
    for (std::size_t d = 0; d < 3; ++d) unit[d] = std::min(problem.space.shape[d], std::lcm(unit[d], chunk[d]));
  }
  return unit;
}

Axes cell_of(const Problem& problem, const Array& array, const Axes& cell) {
  if (array.in_memory() || array.store().unpack_bytes() == 0) return cell;
  Axes chunk = problem.extents(array.chunks());
  for (std::size_t d = 0; d < 3; ++d) chunk[d] = std::clamp<Index>(chunk[d], 1, problem.space.shape[d]);
  return chunk;
}

kernel::Points dense_points(const Tile& tile, const Range3& range, Index item, const Axes& shift) {
  const Index row = range.extent(2) * item;
  kernel::Points points{tile.data, range.first, {range.extent(1) * row, row, item}};
  for (std::size_t d = 0; d < 3; ++d) points.first[d] += shift[d];
  return points;
}

kernel::Points points_of(const Problem& problem, const Piece& piece, std::span<const Tile> tiles) {
  const Tile& tile = tiles[piece.access];
  return piece.dense ? dense_points(tile, piece.cell, problem.item(), piece.shift)
                     : points_of(problem, tile, piece.cell, piece.shift);
}

void for_each_image(const Problem& problem, const Range3& range,
                    const std::function<void(const Range3& part, const Axes& shift)>& f) {
  Axes first, last, at;
  const auto image = [&](std::size_t d, Index index) {
    const Index n = problem.space.shape[d];
    return index >= 0 ? index / n : -((-index + n - 1) / n);
  };
  for (std::size_t d = 0; d < 3; ++d) first[d] = image(d, range.first[d]), last[d] = image(d, range.last[d] - 1) + 1;
  at = first;
  do {
    Axes shift;
    Range3 part = problem.space.whole();
    for (std::size_t d = 0; d < 3; ++d) {
      shift[d] = at[d] * problem.space.shape[d];
      part.first[d] = std::max(part.first[d], range.first[d] - shift[d]);
      part.last[d] = std::min(part.last[d], range.last[d] - shift[d]);
    }
    f(part, shift);
  } while (advance(at, first, last));
}

std::vector<Piece> Cells::read_under(TaskSpec& task, const Range3& range, const RegionOf& region) const {
  std::vector<Piece> pieces;
  for_each_image(problem_, range,
                 [&](const Range3& part, const Axes& shift) { add_cells(task, region, part, shift, pieces); });
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
    kernel::copy_points(points_of(problem, piece, tiles), to, kernel::intersect(there, range), problem.space.item);
  }
}

}  // namespace flagstone::stencil
