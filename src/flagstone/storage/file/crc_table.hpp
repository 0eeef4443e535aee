#pragma once
// The table behind a checksum of 32 bits, byte by byte: the same loop for every polynomial.
#include <array>
#include <cstddef>
#include <cstdint>

namespace flagstone {

/// `Polynomial` with its bits reversed: 0xEDB88320 (zlib's crc32), 0x82F63B78 (Castagnoli's crc32c).
template <std::uint32_t Polynomial>
struct CrcTable {
  static constexpr std::array<std::uint32_t, 256> values = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? Polynomial : 0);
      table[i] = value;
    }
    return table;
  }();

  /// `value` and the result are not inverted.
  static std::uint32_t bytewise(const unsigned char* data, std::size_t size, std::uint32_t value) noexcept {
    for (std::size_t i = 0; i < size; ++i) value = (value >> 8) ^ values[(value ^ data[i]) & 0xFF];
    return value;
  }
};

}  // namespace flagstone
