#pragma once
// AL1: blocks with halos, every one for itself; AL2: cut again for the cache; and, one step deep, the plain sweep.
#include "flagstone/algorithms/stencil/schedules/nested.hpp"

namespace flagstone::stencil {

struct BlockScheme {
  Axes block{1, 1, 1};  // extents of what one task writes; an axis as long as the field is not cut
  Index depth = 1;      // most steps of a superstep
  Index held = 0;       // planes of the places between supersteps that stay in memory: whole cells, or all
  Index rows = 0;       // of a strip that is stepped on while its planes are in the cache; 0: all of them
  CacheBlocks cache;    // AL2: cache blocks of several steps
};

/// Redundant trapezoids: a task loads a block with a halo of radius × steps, goes so many steps on, each on a range
/// that is smaller by the radius, and writes the block. Blocks are independent of each other. Reads go by cells of what
/// lies on disk, so neighbours find common ones in the cache.
///
/// Cost of a superstep of t steps: block_counts (scheme.hpp), halos rounded up to cells. Memory: (2 + coefficients)
/// blocks with halos a worker, what is read, and the planes that are held.
///
/// Returns the steps that were done.
Index run_blocks(Graph& graph, std::shared_ptr<const Problem> problem, const BlockScheme& scheme);

/// Bytes that one task holds: cells read, buffers, what is written.
std::uint64_t block_bytes(const Problem& problem, const BlockScheme& scheme);
/// Extents of a cell: what lies between supersteps is written and read by these; blocks are whole ones.
Axes block_cell(const Problem& problem, const BlockScheme& scheme);

}  // namespace flagstone::stencil
