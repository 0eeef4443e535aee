#pragma once
// The stored bytes of chunks, for kernels that decode themselves.
#include <cstdint>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// The stored bytes of each chunk, undecoded: a 1-D uint8-chunk view; box {i} is chunk i (C order of the grid), with
/// Tile::bytes its exact length (0 when absent). For kernels that decode themselves.
Array encoded_chunks(const Array& zarr_array);
/// What those bytes are: elements as they are, one blosc buffer, or something that only read() unpacks.
enum class ChunkCoding : std::uint8_t { raw, blosc, other };
ChunkCoding chunk_coding(const Array& zarr_array);

}  // namespace flagstone
