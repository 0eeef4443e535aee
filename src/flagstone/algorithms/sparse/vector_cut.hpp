#pragma once
// How X and Y of a product with a streamed matrix are cut, so that what is held of them has room.
#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/algorithms/sparse/csrmm_vectors.hpp"

namespace flagstone::sparse {

/// Bytes that the largest panel takes in a task, beside its vectors.
struct PanelBytes {
  double running = 0;  // as stored, and decoded step by step (unpacked)
  Index rows = 1;      // of the longest, those that are seen
};
/// `real`: what the values are decoded as; `unpacked`: for a device, whole.
PanelBytes panel_bytes(const CsrOperand& a, Dtype real, bool unpacked);

struct Cut {
  Index width, blocks;     // columns
  Index depth, stretches;  // rows of X; of sums over rows those of Y
};

class Cuts {
 public:
  /// Of vectors with `cols` columns, X's and Y's elements of these dtypes.
  Cuts(const Graph& graph, const CsrOperand& a, Dtype of_x, Dtype of_y, Index cols, const PanelBytes& panel,
       const PackedVectors& x, const FinishedVectors& y);

  /// Y_i = A_i X: X is held, whole or a stretch of its rows. `one_vector`: one column is never cut.
  Cut products(bool one_vector) const;
  /// Z += A_iᵀ X_i: Z is held, which takes `sums` bytes an element.
  Cut sums(double sums) const;
  /// A triangle's panels touch all of X and Z: both are held, for blocks of columns.
  Cut symmetric(double sums) const;

 private:
  double room() const;
  Index widest(double each_column, double fixed) const;
  double running() const;
  Index least_depth(double row_bytes) const;
  double moved(const Cut& cut) const;

  const Graph& graph_;
  const CsrOperand& a_;
  double x_item_, y_item_;
  bool device_;  // what is in the host's memory takes room of a device's too
  Index inner_, cols_;
  PanelBytes panel_;
  const PackedVectors& x_;
  const FinishedVectors& y_;
};

}  // namespace flagstone::sparse
