#include "flagstone/storage/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace flagstone {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82F63B78u : 0);
    table[i] = value;
  }
  return table;
}
constexpr auto table = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const unsigned char* data, std::size_t size,
                                                               std::uint32_t value) noexcept {
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
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint32_t value = ~before;
  for (std::size_t i = 0; i < size; ++i) value = (value >> 8) ^ table[(value ^ bytes[i]) & 0xFF];
  return ~value;
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
