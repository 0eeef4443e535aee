#pragma once
// op(X) cut into tiles: A(i, k) names what a task reads, and which part of it is used.
#include <vector>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::linalg {

/// One dimension of op(X): tiles of extent `tile`, the last one clipped, and the boxes in which the file is read, which
/// hold whole tiles. Bits depend on tiles, and on boxes only the traffic.
struct Cut {
  Index extent = 0, tile = 1, box = 1;
  Index tiles() const { return ceil_div(extent, tile); }
};

/// A tile of op(X), rows x cols, as a task names it; of a stack a tile of each of some matrices.
struct MatrixTile {
  Region region;  // stored: the box that is read
  Box used;       // of that box, stored too: the tile
  kernel::Op op;
  bool again = false;  // what is changed: a task that is yet to be added changes it too, so it is not written behind

  Index rows() const { return used.shape[used.shape.size() - (op.transpose ? 1 : 2)]; }
  Index cols() const { return used.shape[used.shape.size() - (op.transpose ? 2 : 1)]; }
  const Array& array() const { return region.array; }
};

/// The same elements as the transposed tile.
MatrixTile transposed(MatrixTile x);
/// Xᴴ; of real ones Xᵀ.
MatrixTile adjoint(MatrixTile x);
/// What is changed and, where there is `more` to come, changed again by a task that may be out of sight yet.
MatrixTile again(MatrixTile c, bool more = true);

/// Whether it is known to be zeros before it is read: beside a triangle.
bool is_zero(const MatrixTile& x);

class Tiled {
 public:
  /// `lead`: of a stack, which of its matrices, as a box of the dimensions before the last two.
  Tiled(Operand x, Cut rows, Cut cols, Box lead = {})
      : x_(std::move(x)), rows_(rows), cols_(cols), lead_(std::move(lead)) {}

  /// Of tiles; an empty inner dimension has none, and tile 0 of it is empty.
  Index rows() const { return rows_.tiles(); }
  Index cols() const { return cols_.tiles(); }
  MatrixTile operator()(Index i, Index j) const;
  /// All tiles in boxes of at most rows x cols of them, row by row.
  std::vector<Box> blocks(Index rows, Index cols) const;

 private:
  Operand x_;
  Cut rows_, cols_;
  Box lead_;
};

}  // namespace flagstone::linalg
