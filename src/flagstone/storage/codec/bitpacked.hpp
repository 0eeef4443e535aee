#pragma once
// Increasing integers in few bits: differences from one to the next, packed in groups of 128.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace flagstone {

// A chunk of n integers of 1, 2, 4 or 8 bytes, little-endian:
//
//   uint64    n
//   uint8     b, bits of the largest of them
//   groups    of 128 integers, the last one shorter:
//     3 bytes       w, e, h
//     16 w bytes    the low w bits of 128 codes, the first one lowest (places beyond the last code are 0)
//     e bytes       which codes are exceptions, increasing
//     e h bytes     what those have above their w bits
//
// A code is the difference from the integer before (0 before the first) modulo 2^b. The first column of a row is less
// than the last one of the row before: its code is large, one of the exceptions, which cost 1 + h bytes each (patched
// frame of reference: Zukowski, Héman, Nes and Boncz 2006). Indices of a random graph of n vertices with d edges each
// take about log2(e n / d) + 1.7 bits.

/// Most bytes that n bytes of integers of so many bytes take.
std::size_t most_bitpacked(std::size_t bytes, std::size_t item);
/// Packs; returns how many bytes. `to`: most_bitpacked of them. Some 3 ns an integer.
std::size_t pack_bits(std::span<const std::byte> from, std::size_t item, std::span<std::byte> to);
/// Unpacks; returns how many bytes; empty where the input is damaged or does not fit. Some 0.7 ns an integer.
std::optional<std::size_t> unpack_bits(std::span<const std::byte> from, std::size_t item, std::span<std::byte> to);

}  // namespace flagstone
