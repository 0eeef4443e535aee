#pragma once
// P A = L U with L and U apart, each an array of its own.
#include "flagstone/algorithms/factor/lu.hpp"

namespace flagstone::linalg {

/// Adds the tasks of P A = L U: L with its ones, U; of neither the other triangle's tiles are written. `pivots` and
/// `options` as for `lu`; the rows are LAPACK's. Cost: that of `lu` with RowOrder::lapack, whose last pass takes L and
/// U apart too.
void lu_triangles(Graph& graph, const char* who, const Operand& a, const Array& l, const Array& u, const Array& pivots,
                  const LuOptions& options = {});

}  // namespace flagstone::linalg
