#pragma once
// Walks over the places of a grid, in C order: `do { ... } while (advance(at, extents));`. It begins at a place, so a
// grid that may have none is asked for its count() first.
#include <algorithm>

#include "flagstone/base/shape.hpp"

namespace flagstone {

/// How many cells of extents `cell` it takes to cover `shape`, along each dimension.
inline Shape grid_of(const Shape& shape, const Shape& cell) {
  Shape grid = shape;
  for (std::size_t d = 0; d < grid.size(); ++d) grid[d] = ceil_div(shape[d], cell[d]);
  return grid;
}

/// Moves `at` to the next place of [first, last); false after the last one, when it is at `first` again.
template <class Place>
bool advance(Place& at, const Place& first, const Place& last) {
  for (std::size_t d = at.size(); d-- > 0;) {
    if (++at[d] < last[d]) return true;
    at[d] = first[d];
  }
  return false;
}

/// The same from zero. Only as many leading dimensions of `extents` are walked as `at` has.
inline bool advance(Shape& at, const Shape& extents) {
  for (std::size_t d = at.size(); d-- > 0;) {
    if (++at[d] < extents[d]) return true;
    at[d] = 0;
  }
  return false;
}

/// Calls f(box) for `all`, which is not empty, cut into boxes of `step` from its start on, the last ones clipped;
/// `loops` are its dimensions, slowest first.
template <class F>
void for_each_box(const Box& all, const Shape& step, const std::vector<std::size_t>& loops, F&& f) {
  Shape at = all.start;
  for (;;) {
    Box box{at, step};
    for (std::size_t d = 0; d < at.size(); ++d) box.shape[d] = std::min(step[d], all.start[d] + all.shape[d] - at[d]);
    f(box);
    std::size_t left = loops.size();
    while (left-- > 0) {
      const std::size_t d = loops[left];
      if ((at[d] += step[d]) < all.start[d] + all.shape[d]) break;
      at[d] = all.start[d];
    }
    if (left == static_cast<std::size_t>(-1)) return;
  }
}

}  // namespace flagstone
