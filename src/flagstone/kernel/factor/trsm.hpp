#pragma once
// Solves with a triangular tile.
#include <complex>

#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/factor/triangle.hpp"

namespace flagstone::kernel {

/// A triangular tile as a verb takes it: the triangle that is stored, before op.
struct Triangle {
  Uplo uplo = Uplo::lower;
  Op op;
  bool unit = false;  // ones on the diagonal, whatever is stored there
};

/// B := alpha op(A)⁻¹ B (left) or alpha B op(A)⁻¹ (right), for the m x n tile B. No scratch: where only conjugation is
/// wanted, B is conjugated before and after. Cost: m² n flops (left), m n² (right), four times that where complex.
void trsm(Side side, Triangle how, std::complex<double> alpha, const Tile& a, const Tile& b);

}  // namespace flagstone::kernel
