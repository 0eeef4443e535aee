#pragma once
// Products of tiles of whole numbers and booleans, which BLAS has not: exact modulo 2^bits, as NumPy's.
#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// C := alpha op(A) op(B) + beta C; beta == 0 overwrites C. All three of one integer dtype, any strides; what does not
/// fit into it wraps. Booleans: true where A and B are for some k, or C was and beta is not 0. Bits depend on neither
/// order nor cutting. Copies of 131 KiB lie on the stack. Cost: 2 m n k operations.
void integer_gemm(std::int64_t alpha, const Tile& a, bool transpose_a, const Tile& b, bool transpose_b,
                  std::int64_t beta, const Tile& c);

}  // namespace flagstone::kernel
