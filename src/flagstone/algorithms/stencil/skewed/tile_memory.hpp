#pragma once
// What of skewed tiles lies in memory: extents of buffers, bytes.
#include "flagstone/algorithms/stencil/skewed/bands.hpp"
#include "flagstone/algorithms/stencil/skewed/skews.hpp"

namespace flagstone::stencil {

/// Extents of buffers and bands, at most.
Bands::Extents extents_of(const Problem& problem, const SkewedScheme& scheme);
/// Bytes of buffers and of what is under way, for so many workers.
std::uint64_t skewed_bytes(const Problem& problem, const SkewedScheme& scheme, const Axes& unit, int workers);
/// Bytes that each plane (of one dimension: element) of the working arrays takes.
std::uint64_t working_bytes(const Problem& problem);

/// Bytes of scratch: what of the working arrays is not held, of each cell less than its pages; and saved_bytes.
std::uint64_t skewed_scratch(const Problem& problem, const SkewedScheme& scheme);
/// Of epochs, where they are saved: two copies of the states.
std::uint64_t saved_bytes(const Problem& problem);

}  // namespace flagstone::stencil
