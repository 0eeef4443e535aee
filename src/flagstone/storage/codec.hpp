#pragma once
// From a chunk's stored bytes to its elements and back.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "flagstone/storage/metadata.hpp"

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
/// Whether encode_chunk knows the steps: blosc, crc32c, both or none.
bool can_encode(const CodecChain& chain);
/// The stored bytes of one chunk; returns how many. `encoded` must hold decoded.size() and a page.
std::size_t encode_chunk(const CodecChain& chain, std::span<const std::byte> decoded, std::size_t item_bytes,
                         std::span<std::byte> encoded);
/// Reverses the bytes of every element (of every part of a complex one).
void swap_bytes(std::byte* data, std::size_t bytes, Dtype dtype);

}  // namespace flagstone
