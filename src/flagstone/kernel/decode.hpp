#pragma once
// Stored chunks -> elements: only the part that a panel needs, on the thread that will use it.
#include "flagstone/base/dtype.hpp"

namespace flagstone::kernel {

/// Elements that csr tasks decode at a time: what one block of a blosc lz4 chunk holds (its blocks are the unit of
/// decoding), so that nothing is decoded twice and the result is still in cache when it is used.
inline constexpr Index decode_step = Index{1} << 17;
/// Memory that the codec takes from malloc while it decodes one step.
inline constexpr std::size_t decode_workspace = std::size_t{2} << 20;

/// Decodes elements [first, first + count) of one blosc chunk of `chunk_elements` elements into `to`. No bytes: an
/// absent chunk, zeros. Returns null, or what is wrong with the chunk; never reads or writes out of bounds.
const char* decode_blosc(const std::byte* encoded, std::size_t encoded_bytes, std::size_t item_bytes,
                         Index chunk_elements, Index first, Index count, std::byte* to);

}  // namespace flagstone::kernel
