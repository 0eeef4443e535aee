#pragma once
// What a task reads of arrays under a range of the field: whole cells, periodic images too.
#include <functional>
#include <vector>

#include "flagstone/algorithms/stencil/field/problem.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::stencil {

/// A cell of an array on disk, and where its elements lie in the block's own space (a periodic image is shifted).
struct Piece {
  std::uint32_t access = 0;
  Range3 cell;
  Axes shift{};
  bool dense = false;  // the tile is the cell in C order, whatever its own shape
};

/// Memory that holds a range in C order, without gaps.
kernel::Points dense_points(const Tile& tile, const Range3& range, Index item, const Axes& shift = {});
/// Where the elements of a piece lie.
kernel::Points points_of(const Problem& problem, const Piece& piece, std::span<const Tile> tiles);

/// What a range of the field is of the array that is read.
using RegionOf = std::function<Region(const Range3&)>;

/// Adds accesses to all cells under a range, periodic images too.
class Cells {
 public:
  Cells(const Problem& problem, const Axes& cell) : problem_(problem), cell_(cell) {}
  std::vector<Piece> read_under(TaskSpec& task, const Range3& range, const RegionOf& region) const;

 private:
  void add_cells(TaskSpec& task, const RegionOf& region, const Range3& part, const Axes& shift,
                 std::vector<Piece>& pieces) const;

  const Problem& problem_;
  Axes cell_;
};

/// Calls f(part, shift) for the parts of the field that a range is, periodic images too: the range lies at part +
/// shift.
void for_each_image(const Problem& problem, const Range3& range,
                    const std::function<void(const Range3& part, const Axes& shift)>& f);

/// f(box) of every box of a grid that meets a range, clipped to the field.
template <class F>
void each_box(const Problem& problem, const Range3& range, const Axes& edge, const F& f) {
  Axes first, last;
  for (std::size_t d = 0; d < 3; ++d) first[d] = range.first[d] / edge[d], last[d] = ceil_div(range.last[d], edge[d]);
  Axes at = first;
  do {
    Range3 box;
    for (std::size_t d = 0; d < 3; ++d) {
      box.first[d] = at[d] * edge[d];
      box.last[d] = std::min(problem.space.shape[d], box.first[d] + edge[d]);
    }
    f(box);
  } while (advance(at, first, last));
}

/// What boxes of results are whole ones of: chunks of those that are written chunk by chunk.
Axes result_units(const Problem& problem);

/// Extents of the boxes by which an operand is read: stored chunks where a part of one costs all of it.
Axes cell_of(const Problem& problem, const Array& array, const Axes& cell);

/// Copies what the pieces' tiles hold of `range` to where the block holds it.
void gather(const Problem& problem, const std::vector<Piece>& pieces, std::span<const Tile> tiles,
            const kernel::Points& to, const Range3& range);

}  // namespace flagstone::stencil
