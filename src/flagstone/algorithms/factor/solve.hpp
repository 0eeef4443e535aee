#pragma once
// A X = B by a factorization that is kept between factoring and solving alone.
#include "flagstone/algorithms/factor/cholesky.hpp"

namespace flagstone::linalg {

/// X := A⁻¹ B for a Hermitian positive definite A, of which the lower triangle of op(A) is read. The factor lies in the
/// run's scratch, where it does not fit into memory. Errors are those of cholesky() and substitute().
/// Cost: n³/3 + 2 n² m flops (complex: four times); the traffic of cholesky() and of one sweep, of two where X takes
/// more than an eighth of the budget (an order, not another arithmetic). `diagonal`: where
/// that of the factor is copied to. `checkpoint`: where its finished tiles are noted; they lie beside it then.
void solve_definite(Graph& graph, const std::string& who, const Operand& a, const Operand& b, const Array& x,
                    const Array* diagonal = nullptr, const std::shared_ptr<Checkpoint>& checkpoint = nullptr);
/// The same with shift I added to A, and L in `l`, which is kept.
void factor_and_solve(Graph& graph, const Operand& a, const Operand& l, CholeskyOptions options, const Operand& b,
                      const Array& x, const Array* diagonal = nullptr);

}  // namespace flagstone::linalg
