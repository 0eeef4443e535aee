#pragma once
// A copy between two memories as their hardware takes it: rows at a pitch.
#include <cstdint>
#include <vector>

#include "flagstone/base/grid.hpp"
#include "flagstone/base/shape.hpp"

namespace flagstone {

/// `height` rows of `width` bytes at their pitches on either side; as many of these as `outer` says.
struct StridedRows {
  std::size_t width = 0, height = 1;
  std::size_t from_pitch = 0, to_pitch = 0;
  struct Outer {
    Index extent, from, to;  // strides in bytes
  };
  std::vector<Outer> outer;
};
/// The fewest and longest rows of a copy of one dtype and shape: dimensions that lie together on both sides are one.
StridedRows rows_of(const Tile& from, const Tile& to);

/// f(source, target) with the first byte of each block of rows of a copy; not at all where there is no element.
template <class F>
void each_block(const StridedRows& rows, const Tile& from, const Tile& to, F&& f) {
  if (count(to.shape) == 0) return;
  Shape extents, at(rows.outer.size(), 0);
  for (const StridedRows::Outer& d : rows.outer) extents.push_back(d.extent);
  do {
    std::byte *source = from.data, *target = to.data;
    for (std::size_t i = 0; i < at.size(); ++i)
      source += at[i] * rows.outer[i].from, target += at[i] * rows.outer[i].to;
    f(source, target);
  } while (!extents.empty() && advance(at, extents));
}

}  // namespace flagstone
