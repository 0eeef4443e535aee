#pragma once
// From a chunk's elements to its stored bytes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "flagstone/storage/codec/codec.hpp"

namespace flagstone {

/// blosc lz4 + shuffle of one chunk; returns the packed size, at most decoded.size() + 16. One thread, no state.
std::size_t encode_blosc(std::span<const std::byte> decoded, std::size_t item_bytes, std::span<std::byte> encoded);
/// Whether encode_chunk knows the steps and their levels: one of blosc, zstd and gzip, or none; crc32c behind, or not.
bool can_encode(const CodecChain& chain);
/// Most bytes that a chunk takes when nothing in it can be packed.
std::uint64_t most_encoded(const CodecChain& chain, std::uint64_t chunk_bytes);
/// Memory that encode_chunk needs beside the chunk; libblosc's own is counted too, which it takes from malloc.
std::size_t encode_scratch_bytes(const CodecChain& chain, std::size_t chunk_bytes);
/// The stored bytes of one chunk; returns how many, at most most_encoded. Error where `encoded` is shorter than needed.
std::size_t encode_chunk(const CodecChain& chain, std::span<const std::byte> decoded, std::size_t item_bytes,
                         std::span<std::byte> encoded, std::byte* scratch);

}  // namespace flagstone
