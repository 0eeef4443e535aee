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

}  // namespace flagstone::kernel
