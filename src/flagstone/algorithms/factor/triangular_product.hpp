#pragma once
// X := alpha T X for a triangular T, in place.
#include "flagstone/algorithms/factor/substitute.hpp"

namespace flagstone::linalg {

/// Adds the tasks; of T one triangle is read. Row tiles go from the end that T looks away from, so that what a row
/// takes is still as it was; beside X there is one copy of it, tile by tile, in the run's scratch, which needs a tile
/// at a time. Cost: n² m flops (complex: four times) and n b m for whole diagonal tiles of edge b; reads the triangle
/// once for every group of columns of X that fits into half of the budget, X once; writes X. Bits depend on shape and
/// dtype.
void triangular_product(Graph& graph, const char* who, const TriangularOperand& t, const Array& x,
                        std::complex<double> alpha);

}  // namespace flagstone::linalg
