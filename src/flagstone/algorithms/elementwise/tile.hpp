#pragma once
// The box of one task of a pass. A function of shapes, dtypes and layouts.
#include "flagstone/algorithms/elementwise/pass.hpp"

namespace flagstone::elementwise {

/// Whole chunks of the stored outputs, else of the largest operand, about 4 MiB of the widest value; whole rows where
/// an operand's layout would make short requests, slabs of columns where all flat operands lie in Fortran order.
Shape choose_tile(const Pass& pass);

}  // namespace flagstone::elementwise
