#pragma once
// One pass over arrays: a fused expression, its results stored or reduced, tile by tile.
#include <optional>
#include <string>
#include <vector>

#include "flagstone/kernel/expression.hpp"
#include "flagstone/runtime/graph.hpp"

namespace flagstone::elementwise {

/// Input i of the program. Its shape, aligned at the last dimension, is the pass's or 1 where it is broadcast.
struct Operand {
  Array array;
  bool transpose = false;  // all dimensions reversed
};

/// A value of the program that is kept.
struct Store {
  int value = -1;
  Array array;  // of the pass's shape
};

/// A value of the program that is reduced over some dimensions.
struct Reduction {
  int value = -1;
  kernel::Fold fold = kernel::Fold::sum;
  kernel::Finish finish = kernel::Finish::value;
  double ddof = 0;
  std::vector<bool> reduced;  // for each dimension of the pass
  /// The remaining dimensions, in order (with `keepdims` all, the reduced ones of extent 1).
  Array out;
  bool keepdims = false;
};

struct Pass {
  kernel::Program program;
  std::vector<Operand> operands;
  std::vector<Store> stores;
  std::vector<Reduction> reductions;
  Shape start, shape;   // which part of the operands' common (broadcast) index space
  std::string scratch;  // directory where partial results may spill
};

/// The box of one task: whole chunks of the stored outputs, else of the largest operand, about 4 MiB of the widest
/// value; whole rows where an operand's layout would make short requests. A function of shapes, dtypes and layouts.
Shape choose_tile(const Pass& pass);

/// Adds the tasks. Reads each operand once (a broadcast one stays in the cache), writes each output once; a reduction
/// also holds one state for each result of the tiles under way. A tile's values fold in a fixed order, tiles join in
/// program order, sums are compensated: neither the limit nor the workers change bits.
/// Throws ShapeError when the pass does not fit together.
void run(Graph& graph, const Pass& pass);

}  // namespace flagstone::elementwise
