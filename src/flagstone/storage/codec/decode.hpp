#pragma once
// From a chunk's stored bytes to its elements.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "flagstone/base/dtype.hpp"
#include "flagstone/storage/codec/codec.hpp"

namespace flagstone {

/// Memory that decode_chunk needs beside the chunk: what lies between two steps, and the codecs' own workspace.
std::size_t decode_scratch_bytes(const CodecChain& chain, std::size_t chunk_bytes);
/// Undoes the steps of one chunk, last first; turns big-endian elements. FormatError names `where`.
/// Cost: one pass over the bytes for each step. `scratch`: decode_scratch_bytes, nothing else is allocated.
void decode_chunk(const CodecChain& chain, Dtype dtype, const EncodedChunk& encoded, std::span<std::byte> decoded,
                  std::byte* scratch, const std::string& where);
/// Length of the encoded chunk at the start of `encoded`, where that can be told; 0 where it is none.
std::size_t encoded_length(const CodecChain& chain, std::span<const std::byte> encoded, std::size_t chunk_bytes);
/// Reverses the bytes of every element (of every part of a complex one).
void swap_bytes(std::byte* data, std::size_t bytes, Dtype dtype);

}  // namespace flagstone
