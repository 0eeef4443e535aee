#pragma once
// How a product is cut: tiles of arithmetic from shapes, dtype and layouts alone; the superblock, that is the order,
// from the budget too.
#include <cstdint>

#include "flagstone/algorithms/linalg/matmul.hpp"

namespace flagstone::linalg {

/// One task computes rows x cols of C over `depth` of the inner dimension.
struct ProductTile {
  Index rows = 0, cols = 0, depth = 0;
};
/// Never a function of the budget, the workers or rates: the bits depend on it. `together`: of a stack, the matrices
/// that one task multiplies. `large`: for a card (Graph::large_tiles).
ProductTile product_tile(const Operand& a, const Operand& b, const Array& c, Index together = 1, bool large = false);

/// The matrices of each that a task of a stack touches.
struct Matrices {
  Index a = 1, b = 1, c = 1;
};

/// C tiles kept together, and the extents of the boxes in which the operands are read (multiples of the tile's).
struct Superblock {
  Index tile_rows = 1, tile_cols = 1;  // tiles of C
  Index a_outer = 0, a_depth = 0;      // box of op(A): rows x depth
  Index b_outer = 0, b_depth = 0;      // box of op(B): cols x depth (outer means columns)
  std::uint64_t bytes = 0;             // working set with the next operands on their way
};

struct ProductShape {
  Index m = 0, n = 0, k = 0;
};

/// The same of a symmetric product: square tiles, which have mirrors, and steps of a few MiB where rows are short.
ProductTile symmetric_tile(const Operand& a, const Operand& b, const Array& c);

/// The superblock with the least estimated seconds whose working set fits `budget`; the smallest one when none fits.
Superblock choose_superblock(const Operand& a, const Operand& b, const Array& c, const ProductTile& tile,
                             std::uint64_t budget, int workers, const Matrices& each = {});
/// Of a product of which one triangle is computed: the sums that each tile has, and the arrays that are multiplied (1:
/// A and its adjoint, of which one panel is both where a superblock holds the whole triangle).
struct SymmetricSums {
  Index sums = 1;
  int operands = 1;
};

/// The same among square ones, for such a product: both operands come in the same boxes.
Superblock choose_square_superblock(const Operand& a, const Operand& b, const Array& c, const ProductTile& tile,
                                    std::uint64_t budget, int workers, const SymmetricSums& half);
/// Sums that the steps of the inner dimension are dealt out to. A function of the shape.
Index rank_k_groups(Index tiles, Index steps);

}  // namespace flagstone::linalg
