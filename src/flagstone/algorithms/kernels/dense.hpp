#pragma once
// Calls of the dense kernels. In all: what the call changes comes last, and nothing is computed here.
#include <optional>
#include <vector>

#include "flagstone/runtime/graph/call.hpp"

namespace flagstone::call {

/// C := alpha op(A) op(B) + beta C; beta == 0 overwrites C. `scratch`: the access with room for conjugated copies
/// (kernel::gemm_scratch), where one is needed. Cost: 2 m n k flops, four times that where complex; said by the caller.
Call gemm(Dtype dtype, std::complex<double> alpha, TilePart a, TilePart b, std::complex<double> beta, TilePart c,
          std::optional<std::uint32_t> scratch = {});
/// C := beta C: a product without depth.
Call scale(Dtype dtype, std::complex<double> beta, TilePart c);
/// C := alpha op(A) op(A)ᵀ + beta C (real), lower triangle.
Call syrk(Dtype dtype, double alpha, TilePart a, double beta, TilePart c);
/// to := from as `dtype` (float32 or float64); `from` of any real dtype.
Call convert(Dtype dtype, TilePart from, TilePart to);

/// Dimension d of the result is dimension axes[d] of the source.
struct Axes : CallValue {
  explicit Axes(std::vector<std::size_t> order) : axes(std::move(order)) {}
  std::vector<std::size_t> axes;
};
/// The tile with its dimensions in that order; shares memory.
Tile turned(const Tile& tile, const std::vector<std::size_t>& axes);
/// to := from with its dimensions in the order of `axes` (null: as they are). `from` names a part of the source as it
/// lies. Cost: both once through memory.
Call rearrange(Dtype dtype, TilePart from, TilePart to, std::shared_ptr<const Axes> axes = {});

}  // namespace flagstone::call
