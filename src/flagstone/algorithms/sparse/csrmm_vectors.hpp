#pragma once
// X and Y of csrmm, as its tasks take them: packed in rows, and cut into the chunks that are written.
#include <complex>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::sparse {

/// Boxes of op(X) as the kernels read them: in rows, of their dtype, as wide as whole vectors of a register.
class PackedVectors {
 public:
  PackedVectors(Graph& graph, linalg::Operand x, Dtype real);

  struct Tile {
    Region region;
    bool temporary = false;  // nobody needs it after its last reader
  };
  /// Rows [row, row + rows) and columns [col, col + cols): where they lie in memory as the kernels need them, else a
  /// tile of its own, padded with zeros on the right; its elements are read once and copied.
  Tile packed(Index row, Index rows, Index col, Index cols);
  /// Whether they are read where they lie.
  bool direct() const { return direct_; }
  Index padded(Index cols) const;
  /// Bytes of X that are on their way into a tile.
  double staging_bytes() const;

 private:
  linalg::Operand part(Index row, Index rows, Index col, Index cols) const;
  Index step(Index cols) const;

  Graph& graph_;
  linalg::Operand x_;
  Dtype real_;
  bool direct_;
};

/// Y := alpha T + beta Y_in, piece by piece as rows of T are done, written by whole chunks.
class FinishedVectors {
 public:
  /// `rows`: about as many are done at a time.
  FinishedVectors(Graph& graph, Stages& stages, linalg::Operand y, const Array* y_in, std::complex<double> alpha,
                  std::complex<double> beta, Index rows);

  /// Whether a dead process left all of them behind, finished.
  bool holds(Index row, Index rows, Index col, Index cols) const;
  /// Where a panel's task may write its rows itself; an empty access where it may not.
  Access direct(Index row, Index rows, Index col, Index width, Index cols) const;
  /// Rows [row, row + rows) are done: they stand in `t` from its row `row - origin` on; an empty region: in Y already.
  void finish(const Region& t, Index origin, Index row, Index rows, Index col, Index cols);
  /// A checkpoint, where one is due and no chunk is half written.
  void offer();
  /// Rows that are written together, and the fewest columns.
  Index stripe() const { return stripe_; }
  Index least_width() const { return columns_; }

 private:
  Box stored(Index row, Index rows, Index col, Index cols) const;
  void add_piece(const Region& t, Index origin, Index stripe, Index low, Index high, Index col, Index cols,
                 bool last_one);
  bool plain() const { return alpha_ == 1.0 && !y_in_; }

  Graph& graph_;
  linalg::Operand y_;
  std::optional<Array> y_in_;
  std::complex<double> alpha_, beta_;
  Index stripe_ = 1, columns_ = 1;
  bool open_ = false;  // a stripe is half written
  std::optional<FinishedTiles> finished_;
};

}  // namespace flagstone::sparse
