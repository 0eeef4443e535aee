#pragma once
// One step of a codec chain undone: bytes in, bytes out; no files, no state, bounds checked.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "flagstone/storage/zarr/metadata/array_metadata.hpp"

namespace flagstone {

/// Bytes written to `to`; empty where the input is damaged or does not fit. Any codec but the checksums.
std::optional<std::size_t> unpack(const CodecStep& step, std::span<const std::byte> from, std::span<std::byte> to);
/// What libbz2 takes from malloc while it unpacks blocks of 900 kB: four bytes for each of theirs, and its state.
inline constexpr std::size_t bz2_workspace = 4u << 20;
/// HDF5's: sums of big-endian 16-bit words, modulo 65535.
std::uint32_t fletcher32(const std::byte* data, std::size_t bytes);

}  // namespace flagstone
