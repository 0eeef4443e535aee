#pragma once
// States of good J: of each group an orthonormal basis of those of its rows' combinations.
#include <memory>

#include "flagstone/algorithms/nuclear/space.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::nuclear {

/// J+ of a group, its rows of M to those of M + 1: (to, from, value) of every entry. No sign: neighbouring states of
/// an orbit have nothing between them.
struct Raising {
  std::int32_t to, from;
  double value;
};
std::vector<Raising> raising(const Basis& basis, Index group);

/// y (rows x width, C order) := J² x, of all rows of a basis: J-J+ + M(M+1), group by group.
void j_squared(const Basis& basis, Index width, const double* x, double* y);

/// A block of Z to make: for which group, where its d x z elements (C order) lie in the array.
struct ZBlock {
  Index group = 0, offset = 0, columns = 0;
};

/// Bytes that making the block of a group takes.
std::size_t j_block_bytes(const Basis& basis, Index group, int two_j);
/// z (rows x columns, C order) := a basis of the states of J. M = J: the kernel of J+, the last columns of Q of a QR of
/// its transpose, 2 d² r flops; M < J: eigenvectors of J² = J-J+ + M(M+1), 9 d³. NumericalError where their number is
/// not the difference of dimensions.
void j_block(const Basis& basis, Index group, int two_j, Index columns, double* z, std::byte* work);
/// values := these blocks, which lie in `box`; one task.
void add_j_blocks(Graph& graph, std::shared_ptr<const Basis> basis, int two_j, std::vector<ZBlock> blocks,
                  const Array& values, const Box& box);

}  // namespace flagstone::nuclear
