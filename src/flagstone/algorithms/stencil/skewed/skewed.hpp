#pragma once
// AL3: skewed tiles, nothing read or computed twice but seams, on working arrays of its own, two of a field.
#include "flagstone/algorithms/stencil/skewed/skews.hpp"

namespace flagstone::stencil {

/// Tiles in lexicographic order, each by bands of planes that all workers share; the next tile is loaded and the last
/// one written meanwhile. Versions of a field take turns in slots (slots.hpp), changed in place: so working arrays are
/// separate from operands and results, which the first superstep reads and the last one writes. They are stored in
/// cells whose edges are those of all tiles' boxes: a task names whole cells. Cost: skewed_counts (skews.hpp); returned
/// is what was counted cell by cell, without what is held in memory.
struct Skewed {
  Counts moved;
  Index steps = 0;            // that were done: all, or as many as somebody asked for while it ran
  std::uint64_t scratch = 0;  // bytes of working arrays there
};
Skewed run_skewed(Graph& graph, std::shared_ptr<const Problem> problem, const SkewedScheme& scheme, const Axes& unit);

}  // namespace flagstone::stencil
