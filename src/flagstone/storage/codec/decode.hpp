#pragma once
// From a chunk's stored bytes to its elements and back.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "flagstone/storage/zarr/metadata/array_metadata.hpp"

namespace flagstone {

/// A chunk as it was read.
struct EncodedChunk {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t skipped = 0;  // bit i: step i was left out when this chunk was written (HDF5's filter mask)
};

std::string_view name_of(Codec codec) noexcept;
/// The inverse; FormatError for a name that is not in the list.
Codec codec_named(std::string_view name);
/// The library that this build lacks for a codec; null where it can be undone.
const char* missing_library(Codec codec) noexcept;
/// Memory that decode_chunk needs beside the chunk: what lies between two steps, and the codecs' own workspace.
std::size_t decode_scratch_bytes(const CodecChain& chain, std::size_t chunk_bytes);
/// Undoes the steps of one chunk, last first; turns big-endian elements. FormatError names `where`.
/// Cost: one pass over the bytes for each step. `scratch`: decode_scratch_bytes, nothing else is allocated.
void decode_chunk(const CodecChain& chain, Dtype dtype, const EncodedChunk& encoded, std::span<std::byte> decoded,
                  std::byte* scratch, const std::string& where);
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
/// Length of the encoded chunk at the start of `encoded`, where that can be told; 0 where it is none.
std::size_t encoded_length(const CodecChain& chain, std::span<const std::byte> encoded, std::size_t chunk_bytes);
/// Reverses the bytes of every element (of every part of a complex one).
void swap_bytes(std::byte* data, std::size_t bytes, Dtype dtype);

}  // namespace flagstone
