#pragma once
// P A = L U with L and U apart, each an array of its own.
#include "flagstone/algorithms/factor/lu.hpp"

namespace flagstone::linalg {

/// Adds the tasks of P A = L U: L with its ones, U; of neither the other triangle's tiles are written. `pivots` as for
/// `lu`. Cost: that of `lu` with RowOrder::lapack, whose last pass takes L and U apart too.
void lu_triangles(Graph& graph, const char* who, const Operand& a, const Array& l, const Array& u, const Array& pivots);

}  // namespace flagstone::linalg
