#pragma once
// Solves with the transpose, or the adjoint, of what an LU factor is of.
#include "flagstone/algorithms/factor/lu.hpp"

namespace flagstone::linalg {

/// X := A⁻ᵀ B, or A⁻ᴴ B where `conjugate`. PivotError with the first zero on the diagonal of U that is met.
/// Cost: that of `lu_solve`; options too are as there.
void lu_solve_transposed(Graph& graph, const char* who, const LuColumns& factor, const Array& pivots, RowOrder rows,
                         bool conjugate, const Operand& b, const Array& x, const LuSolveOptions& options = {});

}  // namespace flagstone::linalg
