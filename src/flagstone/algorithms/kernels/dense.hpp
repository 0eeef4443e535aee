#pragma once
// Calls of the dense kernels. In all: what the call changes comes last, and nothing is computed here.
#include <optional>
#include <vector>

#include "flagstone/runtime/graph/call.hpp"

namespace flagstone::call {

/// C := alpha op(A) op(B) + beta C; beta == 0 overwrites C. `scratch`: the access with room for conjugated copies
/// (kernel::gemm_scratch), where one is needed. Whole numbers wrap, booleans are or and and; alpha and beta are whole
/// then. Parts of more than two dimensions are stacks, C's with all of their matrices, the others with as many or one
/// along each dimension. Cost: 2 m n k flops each, four times that where complex; said by the caller.
Call gemm(Dtype dtype, std::complex<double> alpha, TilePart a, TilePart b, std::complex<double> beta, TilePart c,
          std::optional<std::uint32_t> scratch = {});
/// Such a product as factorizations have it: results below the smallest normal number become zero
/// (kernel::SubnormalsFlushed). On a device, which is as fast with subnormals, nothing is changed.
Call flushed(Call gemm);
/// C := beta C: a product without depth.
Call scale(Dtype dtype, std::complex<double> beta, TilePart c);
/// Elements of C := the nearest within [-most, most], of complex ones their real and imaginary parts; NaN stays. It is
/// the kernel `scale` with a bound, which hosts and emulated devices have.
Call clip(Dtype dtype, double most, TilePart c);
/// to := from as `dtype` (float32 or float64); `from` of any real dtype.
Call convert(Dtype dtype, TilePart from, TilePart to);
/// The lower triangle of to := that of from, both square and of one dtype; what is above it stays.
Call copy_lower(Dtype dtype, TilePart from, TilePart to);
/// to := fromᵀ, or fromᴴ where `conjugate`. The same part of one access twice: its strict upper triangle := the lower
/// one, so mirrored; of a part that is transposed the other way round.
Call mirror(Dtype dtype, bool conjugate, TilePart from, TilePart to);

/// The tile with dimension axes[d] of it as dimension d (empty: as it is); shares memory.
Tile turned(const Tile& tile, const std::vector<std::size_t>& axes);

}  // namespace flagstone::call
