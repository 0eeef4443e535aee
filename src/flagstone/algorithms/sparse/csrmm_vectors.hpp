#pragma once
// X and Y of products, as their tasks take them: packed in rows, and cut into the chunks that are written.
#include <complex>
#include <optional>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/base/semiring.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::sparse {

/// Of a matrix, or of an array with one dimension, which is a column; -1 columns: of an array of more dimensions.
Index height_of(const linalg::Operand& operand);
Index width_of(const linalg::Operand& operand);

/// How boxes of op(X) are packed.
struct Packed {
  bool pads = true;     // as wide as whole vectors of a register
  bool ragged = false;  // what lies in memory as kernels read it is packed where it is not so wide
};

/// Boxes of op(X) as the kernels read them: in rows, of their dtype.
class PackedVectors {
 public:
  PackedVectors(Graph& graph, linalg::Operand x, Dtype real, Packed how = {});

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
  Index step(Index cols) const;

  Graph& graph_;
  linalg::Operand x_;
  Dtype real_;
  bool pads_, direct_;
};

/// What Y becomes of T = A X: alpha T + beta old; over a semiring T + old where it is wanted, and old elsewhere.
struct Finish {
  std::complex<double> alpha = 1, beta = 0;  // 1 and 0 over a semiring
  Array old = {};                            // of Y's shape and any array but it; empty: nothing was there
  std::optional<Semiring> semiring = {};
  linalg::Operand mask = {};  // boolean; of one dimension: by rows. Empty: all are wanted
  bool complement = false;    // the others are wanted
  bool compact = false;       // T's rows are those that a mask in memory wants, in their order

  bool plain() const { return alpha == 1.0 && !old && !mask.array; }
};

/// Y, piece by piece as rows of T are done, written by whole chunks.
class FinishedVectors {
 public:
  /// `rows`: about as many are done at a time.
  FinishedVectors(Graph& graph, Stages& stages, linalg::Operand y, Finish finish, Index rows);

  /// Whether a dead process left all of them behind, finished.
  bool holds(Index row, Index rows, Index col, Index cols) const;
  /// Where a panel's task may write its rows itself; an empty access where it may not.
  Access direct(Index row, Index rows, Index col, Index width, Index cols) const;
  /// Rows [row, row + rows) are done: they stand in `t` from its row `row - origin` on (of a compact T from that of the
  /// first wanted one on); an empty region: in Y already.
  void finish(const Region& t, Index origin, Index row, Index rows, Index col, Index cols);
  /// A checkpoint, where one is due and no chunk is half written.
  void offer();
  /// Rows that are written together, and the fewest columns.
  Index stripe() const { return stripe_; }
  Index least_width() const { return columns_; }

 private:
  Box stored(Index row, Index rows, Index col, Index cols) const;
  struct Piece {
    Index stripe, low, high, col, cols;
    Index from, rows;  // of T
    bool last_one;
  };
  void add_piece(const Region& t, const Piece& piece);
  /// How many of Y's rows [low, high) stand in a compact T.
  Index wanted(Index low, Index high) const;

  Graph& graph_;
  linalg::Operand y_;
  Finish how_;
  Index rows_, cols_;
  Index stripe_ = 1, columns_ = 1;
  bool open_ = false;  // a stripe is half written
  std::optional<FinishedTiles> finished_;
};

}  // namespace flagstone::sparse
