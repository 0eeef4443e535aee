#pragma once
// One pass over arrays: a fused expression, its results stored or reduced, tile by tile.
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::elementwise {

/// Input i of the program. Its shape, aligned at the last dimension, is the pass's or 1 where it is broadcast.
struct Operand {
  Array array;
  bool transpose = false;  // all dimensions reversed
};

/// A value of the program that is kept.
struct Store {
  int value = -1;
  Array array;  // of the pass's shape; an operand too, at the same places: changed in place
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

/// Where a value of a box lies among the tiles of its task.
struct VisitedValue {
  std::uint32_t access = 0;
  bool scratch = false;  // in C order in a scratch access; else as the operand was read, at any strides
  Dtype dtype = Dtype::float64;
};

/// Values of the program that a function looks at, block by block, and stores nowhere.
struct Visit {
  std::vector<int> values;
  /// Gets a box of the pass and one tile of its shape, in C order, for each value; on several threads at once.
  std::function<void(const Box&, std::span<const Tile>)> body;  // empty: there is none
  std::uint64_t scratch = 0;                                    // bytes that a call of the body allocates
  std::uint64_t held = 0;                                       // bytes that bodies keep from call to call
  double touches = 1;                                           // how often the body goes over its tiles, for plans
  std::vector<bool> last;  // dimensions along which boxes follow one another first; empty: the last ones
  /// Adds what another algorithm does with the values of a box: accesses and calls, on the builder's thread, in the
  /// order of the boxes.
  std::function<void(const Box&, std::span<const VisitedValue>, TaskSpec&)> extend;
  std::uint64_t extends = 0;  // bytes of the accesses that it adds to one task, for the choice of readings
  /// Boxes that need no visit: an earlier run did them. Asked in the order of the boxes; empty: none.
  std::function<bool(const Box&)> skips;
};

struct Pass {
  kernel::Program program;
  std::vector<Operand> operands;
  std::vector<Store> stores;
  std::vector<Reduction> reductions;
  Visit visit;
  Shape tile;          // the box of one task; empty: choose_tile (tile.hpp)
  Shape start, shape;  // which part of the operands' common (broadcast) index space
};

struct Scheme;

/// Adds the tasks. Reads each operand once (a broadcast one stays in the cache), writes each output once; a reduction
/// also holds one state for each result of the tiles under way. A tile's values fold in a fixed order, tiles join in
/// program order, sums are compensated: neither the limit nor the workers change bits.
/// Throws ShapeError when the pass does not fit together.
/// How operands come is chosen for the graph's budget (reading.hpp).
void run(Graph& graph, const Pass& pass);
/// The same, and `scheme` says how they come.
void run(Graph& graph, const Pass& pass, Scheme& scheme);

}  // namespace flagstone::elementwise
