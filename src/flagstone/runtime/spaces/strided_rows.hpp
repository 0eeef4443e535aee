#pragma once
// A copy between two memories as their hardware takes it: rows at a pitch.
#include <cstdint>
#include <vector>

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

}  // namespace flagstone
