#pragma once
// A tile as a factorization starts with it.
#include <optional>

#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/factor/triangle.hpp"

namespace flagstone::kernel {

struct Element {
  Index row = 0, col = 0;
};

/// to := op(from), or a triangle of it and zeros; `shift` is added to its diagonal. In place where both are one tile,
/// not transposed. Returns the first element, in the
/// order in which `to` lies, that is NaN or Inf (nothing is looked at beyond a triangle). One read and one write of the
/// tile.
std::optional<Element> take(Part part, const Tile& from, Op op, double shift, const Tile& to);
/// The first element of a tile, or of a triangle of it, that is NaN or Inf, in the order in which it lies; `unit`: the
/// diagonal does not count. One read of the tile.
std::optional<Element> look(Part part, bool unit, const Tile& x);

}  // namespace flagstone::kernel
