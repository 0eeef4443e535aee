#pragma once
// From a chunk's stored bytes to its elements and back.
#include <cstddef>
#include <span>
#include <string>

#include "flagstone/storage/metadata.hpp"

namespace flagstone {

/// Unpacks one chunk: crc32c is verified, blosc unpacked, big-endian elements turned. FormatError names `where`.
/// Cost: one pass over the stored and one over the decoded bytes; no memory of its own.
void decode_chunk(const CodecChain& chain, Dtype dtype, const std::byte* encoded, std::size_t bytes,
                  std::span<std::byte> decoded, const std::string& where);
/// blosc lz4 + shuffle of one chunk; returns the packed size, at most decoded.size() + 16. One thread, no state.
std::size_t encode_blosc(std::span<const std::byte> decoded, std::size_t item_bytes, std::span<std::byte> encoded);
/// Reverses the bytes of every element (of every part of a complex one).
void swap_bytes(std::byte* data, std::size_t bytes, Dtype dtype);

}  // namespace flagstone
