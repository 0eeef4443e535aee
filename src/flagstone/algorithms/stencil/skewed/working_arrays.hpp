#pragma once
// The arrays that AL3 changes in place, stored by cells whose edges are those of all tiles' boxes.
#include <map>
#include <vector>

#include "flagstone/algorithms/stencil/field/problem.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::stencil {

/// What a cell of a working array holds.
enum class Holds : std::uint8_t {
  nothing,
  stale,    // of the superstep before, needed by nobody
  start,    // what the superstep begins with
  fresh,    // what a tile of this superstep wrote
  dropped,  // such, and nobody needs it
};

/// Bytes of what is known of so many cells along each axis, of each array: which row it is, and what it holds.
inline std::uint64_t cells_bytes(std::size_t arrays, const Axes& cells) {
  return 9 * arrays * static_cast<std::uint64_t>(cells[0] * cells[1] * cells[2]);
}

/// So many arrays of the field, extended beyond periodic edges that are cut, on the grid of `cuts`. Cells before plane
/// `held` (of one dimension: element) lie in memory, the others in scratch. Cost: arrays × the field, and cells_bytes,
/// which the caller charges.
class WorkingArrays {
 public:
  WorkingArrays(Graph& graph, const Problem& problem, std::size_t arrays, std::array<std::vector<Index>, 3> cuts,
                Index held);

  /// Range of all cells.
  Range3 extents() const;
  bool in_memory(const Range3& cell) const { return held_ > 0 && cell.last[first_axis(problem_)] <= held_; }
  /// The range of whole cells around one.
  Range3 around(Range3 range) const;
  /// The cells' edges along an axis, within an interval of whole ones.
  std::vector<Interval> intervals(std::size_t d, const Interval& all) const;
  /// Calls f(cell, number) for all cells of a range that consists of whole ones.
  template <class F>
  void for_each_cell(const Range3& range, F&& f) const {
    Axes first, last;
    for (std::size_t d = 0; d < 3; ++d) {
      first[d] = place(d, range.first[d]), last[d] = place(d, range.last[d]);
      if (last[d] <= first[d]) return;
    }
    Axes at = first;
    do {
      Range3 cell;
      std::size_t number = 0;
      for (std::size_t d = 0; d < 3; ++d) {
        const auto i = static_cast<std::size_t>(at[d]);
        cell.first[d] = cuts_[d][i], cell.last[d] = cuts_[d][i + 1];
        number = number * (cuts_[d].size() - 1) + i;
      }
      f(cell, number);
    } while (advance(at, first, last));
  }
  /// Bytes of scratch: of each cell there whole pages.
  std::uint64_t scratch() const;
  Holds& holds(std::size_t array, std::size_t number) { return holds_[array][number]; }
  Region region(std::size_t array, std::size_t number, const Range3& cell) const;

 private:
  Index place(std::size_t d, Index at) const;

  const Problem& problem_;
  std::array<std::vector<Index>, 3> cuts_;
  Index held_;
  std::vector<Index> rows_;  // of each cell of each array: which row of which stored array its size says
  std::map<std::pair<Index, bool>, Array> stored_;
  std::vector<std::vector<Holds>> holds_;
};

}  // namespace flagstone::stencil
