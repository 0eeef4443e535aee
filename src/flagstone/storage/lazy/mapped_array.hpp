#pragma once
// Arrays whose elements are elements of others at places of their own: joined, reversed, rolled, repeated, stretched.
#include <cstddef>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// One dimension of the result: which index of the members' dimension `source` each of its indexes is.
struct AxisMap {
  enum class Kind {
    same,     // i
    flip,     // n - 1 - i
    roll,     // (i - amount) mod n
    repeat,   // i / amount
    tile,     // i mod n
    select,   // `amount`, the only index of the result
    stretch,  // 0: `amount` times the only index, or of a dimension that members have not (no source)
    join,     // i of the members one after the other, in their order
  };
  Kind kind = Kind::same;
  int source = -1;
  Index amount = 0;
};

/// The array that `axes` make of the members, which have one dtype, and one shape but along a joined dimension (of
/// which there is one at most; without it one member). Dimensions of members that no axis names have one index. Nothing
/// is moved: a box in one member that keeps its order travels as it does there, any other is put together on arrival.
/// ShapeError where axes and members do not agree.
Array mapped_array(std::vector<Array> members, const std::vector<AxisMap>& axes);

}  // namespace flagstone
