#pragma once
// Where an operand lies in the index space of a pass.
#include <algorithm>

#include "flagstone/algorithms/elementwise/pass.hpp"

namespace flagstone::elementwise {

inline Shape reversed(Shape shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}

inline std::uint64_t bytes_of(const Shape& box, std::size_t item) {
  return static_cast<std::uint64_t>(count(box)) * item;
}

/// The part of an operand that a box of the pass needs, in the operand's own order of dimensions.
inline Box box_of(const Operand& operand, const Box& box) {
  const Shape shape = operand.transpose ? reversed(operand.array.shape()) : operand.array.shape();
  const std::size_t missing = box.shape.size() - shape.size();
  Box part{Shape(shape.size(), 0), Shape(shape.size(), 1)};
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) part.start[d] = box.start[missing + d], part.shape[d] = box.shape[missing + d];
  if (operand.transpose) part = {reversed(part.start), reversed(part.shape)};
  return part;
}

/// Whether an operand is repeated along a dimension of the pass.
inline bool broadcast(const Operand& operand, const Pass& pass) {
  const Shape own = operand.transpose ? reversed(operand.array.shape()) : operand.array.shape();
  const std::size_t missing = pass.shape.size() - own.size();
  for (std::size_t d = 0; d < pass.shape.size(); ++d)
    if (pass.shape[d] > 1 && (d < missing || own[d - missing] == 1)) return true;
  return false;
}

}  // namespace flagstone::elementwise
