#include "flagstone/storage/file/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "flagstone/storage/file/crc_table.hpp"

namespace flagstone {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78u;
using Table = CrcTable<polynomial>;

#if defined(__x86_64__)
/// What a checksum becomes when `Bytes` zero bytes follow: linear over GF(2), so four look-ups apply it.
template <std::size_t Bytes>
constexpr std::array<std::array<std::uint32_t, 256>, 4> make_shift() {
  static_assert((Bytes & (Bytes - 1)) == 0);
  using Matrix = std::array<std::uint32_t, 32>;  // column i: what becomes of bit i
  const auto times = [](const Matrix& matrix, std::uint32_t vector) {
    std::uint32_t product = 0;
    for (std::size_t i = 0; vector != 0; ++i, vector >>= 1)
      if (vector & 1) product ^= matrix[i];
    return product;
  };
  Matrix shift{};
  shift[0] = polynomial;  // one zero bit
  for (std::size_t i = 1; i < 32; ++i) shift[i] = 1u << (i - 1);
  for (std::size_t bits = 1; bits < 8 * Bytes; bits *= 2) {
    Matrix twice{};
    for (std::size_t i = 0; i < 32; ++i) twice[i] = times(shift, shift[i]);
    shift = twice;
  }
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::uint32_t v = 0; v < 256; ++v) tables[k][v] = times(shift, v << (8 * k));
  return tables;
}

template <std::size_t Bytes>
std::uint32_t behind_zeros(std::uint32_t value) noexcept {
  static constexpr auto shift = make_shift<Bytes>();
  return shift[0][value & 0xFF] ^ shift[1][value >> 8 & 0xFF] ^ shift[2][value >> 16 & 0xFF] ^ shift[3][value >> 24];
}

/// Three runs of `Bytes` at once: the instruction takes three cycles and one can start in every cycle.
template <std::size_t Bytes>
__attribute__((target("sse4.2"))) std::uint32_t three_runs(const unsigned char*& data, std::size_t& size,
                                                           std::uint32_t value) noexcept {
  const auto word = [](const unsigned char* at) {
    std::uint64_t w;
    std::memcpy(&w, at, 8);
    return w;
  };
  for (; size >= 3 * Bytes; data += 3 * Bytes, size -= 3 * Bytes) {
    std::uint64_t a = value, b = 0, c = 0;
    for (std::size_t i = 0; i < Bytes; i += 8) {
      a = _mm_crc32_u64(a, word(data + i));
      b = _mm_crc32_u64(b, word(data + Bytes + i));
      c = _mm_crc32_u64(c, word(data + 2 * Bytes + i));
    }
    value = behind_zeros<Bytes>(static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    value = behind_zeros<Bytes>(value) ^ static_cast<std::uint32_t>(c);
  }
  return value;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const unsigned char* data, std::size_t size,
                                                               std::uint32_t value) noexcept {
  value = three_runs<4096>(data, size, value);
  value = three_runs<256>(data, size, value);
  std::uint64_t wide = value;
  for (; size >= 8; data += 8, size -= 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  value = static_cast<std::uint32_t>(wide);
  for (; size > 0; ++data, --size) value = _mm_crc32_u8(value, *data);
  return value;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(const void* data, std::size_t size, std::uint32_t before) noexcept {
  return ~Table::bytewise(static_cast<const unsigned char*>(data), size, ~before);
}

std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t before) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool instruction = __builtin_cpu_supports("sse4.2");
  if (instruction) return ~by_instruction(bytes, size, ~before);
#endif
  return crc32c_by_table(bytes, size, before);
}

}  // namespace flagstone
