#pragma once
// Kernels that are a fused expression over neighbours: rows without native loops of their own.
#include <memory>
#include <vector>

#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/kernel/stencil/plane_kernel.hpp"

namespace flagstone::stencil {

/// What an input of the program is: a neighbour of the field, the point at the step before, a coefficient there.
struct ExpressionInput {
  enum class Kind : std::uint8_t { neighbour, before, coefficient } kind = Kind::neighbour;
  kernel::Axes offset{};
  std::size_t coefficient = 0;
};

/// Input i of the program is inputs[i]; `value` is what a step makes, in the field's dtype. One verb after another over
/// blocks of a few KiB: some 5 to 10 times slower than a native row.
std::unique_ptr<kernel::PlaneKernel> expression_kernel(kernel::Program program, int value, Dtype dtype,
                                                       std::vector<ExpressionInput> inputs);

}  // namespace flagstone::stencil
