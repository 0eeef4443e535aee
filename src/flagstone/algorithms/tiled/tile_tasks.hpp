#pragma once
// The verbs of dense algebra on tiles: each adds one task.
#include <complex>

#include "flagstone/algorithms/tiled/tiled.hpp"

namespace flagstone::linalg {

/// C := alpha A B + beta C_in. Without `c_in` it is C itself: updated, or written only where beta is 0. Of `c_in` C's
/// own box is read. Cost: 2 rows cols depth flops (four times as many complex ones).
void gemm(Graph& graph, std::complex<double> alpha, const MatrixTile& a, const MatrixTile& b, std::complex<double> beta,
          const MatrixTile& c, const Array* c_in = nullptr);

}  // namespace flagstone::linalg
