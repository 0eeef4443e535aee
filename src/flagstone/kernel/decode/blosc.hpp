#pragma once
// Stored chunks -> elements: only the part that a panel needs, on the thread that will use it.
#include <span>

#include "flagstone/base/dtype.hpp"

namespace flagstone::kernel {

/// Elements that csr tasks decode at a time: what one block of a blosc lz4 chunk holds (its blocks are the unit of
/// decoding), so that nothing is decoded twice and the result is still in cache when it is used.
inline constexpr Index decode_step = Index{1} << 17;
/// Memory for one block as the codec leaves it: decode_step elements of at most 8 bytes are 1 MiB in chunks as
/// Flagstone writes them; other writers may make blocks twice as long.
inline constexpr std::size_t decode_workspace = std::size_t{2} << 20;

/// Decodes elements [first, first + count) of one blosc chunk of `chunk_elements` elements into `to`. No bytes: an
/// absent chunk, zeros. Returns null, or what is wrong with the chunk; never reads or writes out of bounds.
/// lz4 chunks whose blocks fit `workspace` take no other memory; the others are left to libblosc, which takes its own.
const char* decode_blosc(std::span<const std::byte> encoded, std::size_t item_bytes, Index chunk_elements, Index first,
                         Index count, std::byte* to, std::span<std::byte> workspace);

}  // namespace flagstone::kernel
