#pragma once
// Rank-k updates of one triangle.
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/factor/triangle.hpp"

namespace flagstone::kernel {

/// Bytes of scratch that herk needs for these: a conjugated copy of A where BLAS cannot conjugate in place; else 0.
std::size_t herk_scratch(const Tile& a, Op op, const Tile& c);
/// The named triangle of C := alpha op(A) op(A)ᴴ + beta C; real: BLAS's syrk. beta == 0 overwrites it. The imaginary
/// part of the diagonal becomes zero. Cost: n² k flops, four times that where complex.
void herk(Uplo uplo, double alpha, const Tile& a, Op op, double beta, const Tile& c, std::byte* scratch);

}  // namespace flagstone::kernel
