#pragma once
// A lazy operand that a product reads several times: computed each time, or once and kept in scratch.
#include <set>
#include <string>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::linalg {

class KeptOperand {
 public:
  /// `times`: how often the product reads the operand, in boxes of `box` (of the array, as it is stored).
  KeptOperand(Graph& graph, const Operand& given, const Shape& box, Index times);

  /// What tasks name: the operand itself, or what is kept of it.
  const Operand& operand() const { return used_; }
  /// To be called before a task that reads this box: adds the one that computes it, the first time.
  void need(const Region& region);

  /// "computed 4 times, ..." for plans; empty for what is stored, or read once.
  std::string note() const;
  std::uint64_t scratch_bytes() const { return kept() ? used_.array.nbytes() : 0; }

 private:
  bool kept() const { return used_.array.id() != given_.array.id(); }

  Graph& graph_;
  Operand given_, used_;
  Index times_;
  std::set<Shape> computed_;  // where boxes begin
};

}  // namespace flagstone::linalg
