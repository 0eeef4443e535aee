#pragma once
// The other half of a symmetric or Hermitian matrix.
#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// to := fromᵀ, conjugated where asked, for tiles that do not overlap, any strides. Cost: both once through memory.
void mirror(const Tile& from, bool conjugate, const Tile& to);
/// The strict upper triangle of a square tile := the lower one, transposed and, where asked, conjugated; the diagonal
/// becomes real then.
void mirror_within(const Tile& tile, bool conjugate);

}  // namespace flagstone::kernel
