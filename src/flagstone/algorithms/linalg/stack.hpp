#pragma once
// Products of stacks: every matrix of A with its own of B, or with the one that there is, as NumPy broadcasts.
#include "flagstone/algorithms/linalg/matmul.hpp"

namespace flagstone::linalg {

/// Extents of the dimensions before the last two.
Shape lead_of(const Array& array);
/// Those of the product: broadcast, from the last one on. ShapeError where they do not meet.
Shape lead_of_product(const Operand& a, const Operand& b);

/// C := alpha op(A) op(B) + beta C for each matrix; arguments, results and cost as matmul's, times the matrices. One
/// task multiplies several small ones. Operands with fewer matrices are read again for each stretch of the product's
/// that the budget does not hold beside them.
void matmul_stacks(Graph& graph, const Operand& a, const Operand& b, const Array* c_in, const Array& c_out,
                   const MatmulOptions& options);

}  // namespace flagstone::linalg
