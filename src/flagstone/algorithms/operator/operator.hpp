#pragma once
// A symmetric matrix that can only be applied to blocks of vectors, and such a block in memory.
#include <functional>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::spectral {

/// G = XᵀX of some matrix X, n x n, never formed.
struct Operator {
  Index n = 0;
  /// Y += G X; X n x b of `dtype` given to block_krylov (later perhaps float64), Y n x b float64, both in memory.
  std::function<void(Graph&, const Array& x, const Array& y)> apply;
  bool squares = false;  // G is AᵀA or A Aᵀ, whose numbers are squares of A's
};

/// A C-order float64 matrix somewhere in memory.
Tile matrix(double* data, Index rows, Index cols);

}  // namespace flagstone::spectral
