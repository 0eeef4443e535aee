#pragma once
// Tasks that copy boxes of arrays into boxes of others.
#include <vector>

#include "flagstone/algorithms/stencil/field/work.hpp"

namespace flagstone::stencil {

/// One task under construction: reads boxes, writes boxes, and copies ranges from one to the other.
class Moves {
 public:
  explicit Moves(std::shared_ptr<const Problem> problem, std::string name);
  /// A box that holds `range`; its number.
  std::size_t read_box(Region region, const Range3& range);
  std::size_t write_box(Region region, const Range3& range);
  /// What box `to` holds of `range` := box `from`, whose point p is `to`'s p + shift.
  void copy(std::size_t from, std::size_t to, const Range3& range, const Axes& shift = {});
  /// The copies go from one node of a plan to another.
  void send() { task_.cost.bytes_sent = task_.cost.bytes_touched / 2; }
  void add_to(Graph& graph);

 private:
  struct Work;
  std::shared_ptr<Work> work_;
  TaskSpec task_;
};

}  // namespace flagstone::stencil
