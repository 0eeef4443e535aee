#pragma once
// Cholesky factorization of one tile.
#include "flagstone/base/shape.hpp"
#include "flagstone/kernel/factor/triangle.hpp"

namespace flagstone::kernel {

/// The named triangle of the Hermitian n x n tile is overwritten with its factor: A = L Lᴴ (lower), A = Uᴴ U (upper).
/// Returns LAPACK's info: 0, or the order of the first leading minor that is not positive (NaN and Inf neither); then
/// the triangle holds nothing of use. Cost: n³/3 flops, four times that where complex.
int potrf(Uplo uplo, const Tile& a);

}  // namespace flagstone::kernel
