#pragma once
// AL3: skewed tiles, nothing read or computed twice but seams, on a working pair of arrays of its own.
#include "flagstone/algorithms/stencil/skewed/skews.hpp"

namespace flagstone::stencil {

/// Tiles in lexicographic order, each by bands of planes that all workers share; the next tile is loaded and the last
/// one written meanwhile. Step t lies in P[t & 1], changed in place: so the working pair is separate from operands and
/// results, which the first superstep reads and the last one writes. It is stored in cells whose edges are those of all
/// tiles' boxes: a task names whole cells. Cost: skewed_counts (skews.hpp); returned is what was counted cell by cell,
/// without what is held in memory.
struct Skewed {
  Counts moved;
  Index steps = 0;  // that were done: all, or as many as somebody asked for while it ran
};
Skewed run_skewed(Graph& graph, std::shared_ptr<const Problem> problem, const SkewedScheme& scheme, const Axes& unit);

/// Bytes of buffers and of what is under way, for so many workers.
std::uint64_t skewed_bytes(const Problem& problem, const SkewedScheme& scheme, const Axes& unit, int workers);
/// Bytes that each plane (of one dimension: element) of the working pair takes.
std::uint64_t pair_bytes(const Problem& problem);

}  // namespace flagstone::stencil
