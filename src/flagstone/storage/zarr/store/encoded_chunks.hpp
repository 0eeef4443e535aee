#pragma once
// The stored bytes of chunks, for kernels that decode themselves.
#include <cstdint>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// The stored bytes of each chunk, undecoded: a 1-D uint8-chunk view; box {i} is chunk i (C order of the grid), with
/// Tile::bytes its exact length (0 when absent). For kernels that decode themselves.
Array encoded_chunks(const Array& zarr_array);
/// The element that chunks hold which are not stored: the fill value.
std::vector<std::byte> element_of_absent_chunks(const Array& zarr_array);
/// Whether they are integers as differences in few bits.
bool is_bitpacked(const Array& array);
/// What those bytes are: elements as they are, one blosc buffer, or something that only read() unpacks.
enum class ChunkCoding : std::uint8_t { raw, blosc, other };
ChunkCoding chunk_coding(const Array& zarr_array);

}  // namespace flagstone
