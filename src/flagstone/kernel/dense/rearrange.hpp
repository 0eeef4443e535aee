#pragma once
// Elements copied between tiles whose memory orders differ: transposition, blocked for the processor's caches.
#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// to[i] := from[i] for tiles of one shape and dtype, any strides, that do not overlap. Runs that are contiguous in
/// both are copied whole; else squares of a cache line's width go through a small buffer, so that every line of either
/// side is touched once. Cost: both tiles once through memory.
void rearrange(const Tile& from, const Tile& to);

}  // namespace flagstone::kernel
