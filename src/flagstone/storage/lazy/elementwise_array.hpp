#pragma once
// Arrays that are element-wise expressions of others, computed where they are loaded.
#include <memory>
#include <vector>

#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// Input i of the program. Its shape (reversed where it is seen transposed) is broadcast from the right.
struct LazyOperand {
  Array array;
  bool transpose = false;
};

/// The array whose elements are `value` of the program. Chunks are those of the largest operand of this shape that is
/// read by chunks, the whole shape where there is none. A box moves what it takes of each operand; `verbs` flops an
/// element. ShapeError where operands do not fit the program or the shape.
Array elementwise_array(std::shared_ptr<const kernel::Program> program, int value, std::vector<LazyOperand> operands,
                        const Shape& shape);

}  // namespace flagstone
