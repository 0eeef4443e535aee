#pragma once
// An orthonormal basis in blocks of columns, and the dense updates on it. Single-threaded BLAS in a fixed order.
#include <vector>

#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::spectral {

/// Q = [Q_1, Q_2, ...], each n x (at most b), held in memory that was charged once. Does nothing in a planned run but
/// charge.
class Basis {
 public:
  Basis(Graph& graph, Index n, Index block, int most_blocks);

  Index columns() const { return columns_; }
  int blocks() const { return static_cast<int>(widths_.size()); }
  bool full() const { return widths_.size() == blocks_.size(); }
  Index last_width() const { return widths_.back(); }
  /// The last block's array, n x block: columns from last_width() on are zero.
  const Array& last() const { return blocks_[widths_.size() - 1]; }
  /// The array of a block, whether it is in use or not.
  const Array& array(int block) const { return blocks_[block]; }

  /// A new last block: a copy of w (n x width, contiguous).
  void append(const double* w, Index width);
  void clear() { widths_.clear(), columns_ = 0; }
  /// FormatError where a saved basis has more blocks than this one may.
  void list_parts(StateParts& parts);
  /// coefficients (columns() x width) := QᵀW
  void project(const double* w, Index width, double* coefficients) const;
  /// W -= Q coefficients
  void subtract(const double* coefficients, Index width, double* w) const;
  /// result (n x width) := Q y, y columns() x width in C order
  void combine(const double* y, Index width, double* result) const;
  /// Q := Q y: the basis becomes `width` columns in blocks of the full width.
  void compress(const double* y, Index width);

 private:
  /// Rows [first, first + count) of a block; rows lie block_ numbers apart whatever the width.
  Tile part(int block, Index first, Index count) const;

  Index n_, block_, columns_ = 0;
  std::vector<Array> blocks_;
  std::vector<Index> widths_;
};

/// W := W u[:, :keep] in place, u old x old: rows from n x old to n x keep.
void rotate(double* w, Index n, const std::vector<double>& u, Index old, Index keep);

}  // namespace flagstone::spectral
