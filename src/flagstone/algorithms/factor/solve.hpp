#pragma once
// A X = B by a factorization that is kept between factoring and solving alone.
#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/runtime/runtime.hpp"

namespace flagstone::linalg {

/// X := A⁻¹ B for a Hermitian positive definite A, of which the lower triangle of op(A) is read. The factor lies in the
/// run's scratch, where it does not fit into memory. Errors are those of cholesky() and substitute().
/// Cost: n³/3 + 2 n² m flops (complex: four times); the traffic of cholesky() and of two sweeps.
void solve_definite(Graph& graph, const Operand& a, const Operand& b, const Array& x);

}  // namespace flagstone::linalg
