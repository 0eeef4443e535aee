#pragma once
// The tasks of tile QR: a step of the tree on a panel, and on a column of tiles of another matrix.
#include <optional>
#include <string>
#include <vector>

#include "flagstone/algorithms/factor/qr_tree.hpp"
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::linalg {

/// Whom errors name, and whether rows are columns of what was given there.
struct Named {
  std::string who;
  bool turned = false;
  call::Place place(call::Whose whose, Index row, Index col) const { return {who, row, col, whose, turned}; }
};

/// A matrix of m rows that reflectors are made of or applied to, in tiles of the tree's rows: where its tiles are, and
/// what they are at first.
class Columns {
 public:
  /// `array` is cols x m; its tiles come from `source`, which is `whose`, or are the identity's (no source); what is
  /// stored of them is `made`.
  Columns(const QrTree& tree, Array array, Index cols, std::optional<Operand> source, Named named,
          call::Whose whose = call::Whose::matrix, call::Whose made = call::Whose::result);

  Index tiles() const { return ceil_div(cols_, width_); }
  Index width(Index j) const { return std::min(width_, cols_ - j * width_); }
  Index height(Index i) const { return tree_.height(i); }
  Region region(Index i, Index j) const;
  /// Touches tile (i, j) for a task that changes it; the first one brings it in. Returns the access.
  std::uint32_t change(TaskSpec& task, Index i, Index j, bool last = false);
  /// Columns [from, end) are there.
  void there(Index from, Index end);
  /// to := op(this), tile by tile of columns [from, end).
  void store(Graph& graph, const Operand& to, Index from, Index end);

 private:
  const QrTree& tree_;
  Array array_;
  Index cols_, width_;
  std::optional<Operand> source_;
  Named named_;
  call::Whose whose_, made_;
  Index box_rows_ = 1, box_cols_ = 1;
  std::vector<bool> there_;
};

/// Adds the tasks of steps.
class QrTasks {
 public:
  /// `dropped`: reflectors are needed no more when the last column of tiles has seen them.
  QrTasks(Graph& graph, const QrTree& tree, Reflectors reflectors, bool dropped, Named named)
      : graph_(graph), tree_(tree), f_(std::move(reflectors)), dropped_(dropped), named_(std::move(named)) {}

  /// One step of panel k of `a`, whose tiles become its reflectors; not `kept`: nobody applies them.
  void factor(Columns& a, Index k, const QrTree::Step& step, bool kept);
  /// The same step, applied to column j of tiles of `c`: Qᴴ C (`adjoint`) or Q C.
  void apply(Columns& c, Index j, Index k, const QrTree::Step& step, bool adjoint);
  /// The triangle of group q of the first panel := one that lies elsewhere.
  void copy_triangle(const Array& from, Index q);
  /// Rows k of R := the triangle of panel k's first group, and what `a` has right of it.
  void store_triangle(Columns& a, Index k, const Operand& to);

 private:
  Region t(Index slot, Index k) const;
  Region r(Index q, Index k) const;
  Index merge_slot(Index head) const { return tree_.row_tiles + tree_.group_of(head); }

  Graph& graph_;
  const QrTree& tree_;
  Reflectors f_;
  bool dropped_;
  Named named_;
};

}  // namespace flagstone::linalg
