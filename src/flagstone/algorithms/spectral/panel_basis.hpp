#pragma once
// An orthonormal basis of tall columns that may be larger than memory, in row panels; and the tasks that go over
// panels.
#include <memory>
#include <vector>

#include "flagstone/algorithms/spectral/small_matrix.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::spectral {

/// How tall columns are cut: a function of n, the widths of blocks and basis, and the dtype, never of a limit.
struct PanelCut {
  PanelCut(Index n, Index block, Index slots, Dtype dtype);

  Index n, block, slots;
  Dtype dtype;
  Index rows;  // of a panel: all its columns are about 8 MiB, so that a task and its neighbours fit a small limit

  Index panels() const { return ceil_div(n, rows); }
  Index first(Index panel) const { return panel * rows; }
  Index length(Index panel) const { return std::min(rows, n - first(panel)); }
};

/// V = [slot 0, slot 1, ...], each at most `block` columns wide: tiles of one panel and one slot, in memory or in a
/// file of scratch as their room allows.
class PanelBasis {
 public:
  PanelBasis(const PanelCut& cut, Array array) : cut_(cut), array_(std::move(array)) {}
  static Shape shape(const PanelCut& cut) { return {cut.n, cut.slots * cut.block}; }
  static Shape tile(const PanelCut& cut) { return {cut.rows, cut.block}; }

  const PanelCut& cut() const { return cut_; }
  const Array& array() const { return array_; }
  Index columns() const { return columns_; }
  Index slots() const { return static_cast<Index>(widths_.size()); }
  Index width(Index slot) const { return widths_[slot]; }
  /// The next slot holds `width` columns from now on.
  void push(Index width) { widths_.push_back(width), columns_ += width; }
  void list_parts(StateParts& parts);
  /// The same columns in another array.
  PanelBasis in(Array array) const;

  /// Columns [from, end) slot by slot.
  struct Part {
    Index slot, from, width;  // columns of the slot
    Index column;             // of V
  };
  std::vector<Part> parts(Index from, Index end) const;
  Region region(Index panel, Index slot) const;

 private:
  PanelCut cut_;
  Array array_;
  std::vector<Index> widths_;
  Index columns_ = 0;
};

/// The task of one panel: products of tiles, small matrices and rows of blocks in memory.
class PanelTask {
 public:
  PanelTask(std::string name, const PanelCut& cut, Index panel);

  Index panel() const { return panel_; }
  /// Columns of a slot of the basis; the slot itself, however many columns it is to have.
  TilePart columns(const PanelBasis& v, const PanelBasis::Part& part, Mode mode = Mode::read);
  TilePart slot(const PanelBasis& v, Index slot, Index from, Index width, Mode mode);
  /// This panel's rows of a tall array, columns [from, from + width).
  TilePart rows(const Array& tall, Index from, Index width, Mode mode);
  /// A small matrix, and a part of it.
  TilePart small(const Array& matrix, Box part, Mode mode = Mode::read);
  TilePart small(const Array& matrix, Mode mode = Mode::read) { return small(matrix, whole(matrix.shape()), mode); }

  /// C := alpha A B + beta C.
  void gemm(double alpha, const TilePart& a, const TilePart& b, double beta, const TilePart& c);
  void copy(const TilePart& from, const TilePart& to);
  void zero(const TilePart& to);
  /// Nobody needs the slots that were read.
  void drop_slots() { drop_ = true; }
  void add_to(Graph& graph);

 private:
  std::uint32_t touch(const Region& region, Mode mode);

  const PanelCut& cut_;
  Index panel_;
  bool drop_ = false;
  std::vector<std::uint32_t> slots_;
  TaskSpec spec_;
};

/// op(A) = Aᴴ.
TilePart adjoint(TilePart part);

/// One task a panel, in order or backwards: sums over panels are joined in the order of the tasks, so it is a matter of
/// bits, and a sweep that comes back finds in memory what the one before it left there.
template <class Fill>
void sweep(Graph& graph, const char* name, const PanelCut& cut, bool backwards, Fill&& fill) {
  for (Index i = 0; i < cut.panels(); ++i) {
    PanelTask task(name, cut, backwards ? cut.panels() - 1 - i : i);
    fill(task);
    task.add_to(graph);
  }
}

/// Another handle of the same memory: boxes of one handle coincide or are disjoint, and each phase has boxes of its
/// own.
Array again_as(const Array& array);

}  // namespace flagstone::spectral
