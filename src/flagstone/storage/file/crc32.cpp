#include "flagstone/storage/file/crc32.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "flagstone/storage/file/crc_table.hpp"

namespace flagstone {
namespace {

constexpr std::uint32_t polynomial = 0xEDB88320u;
using Table = CrcTable<polynomial>;

#if defined(__x86_64__)
/// Two factors of a fold over `bits`, for the polynomial P with bits reversed: x^(bits+32) and x^(bits-32) mod P
/// (Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel 2009).
struct Fold {
  std::uint64_t low, high;
};

/// x^n mod P as the multiplication takes it: bits reversed, one place up.
constexpr std::uint64_t power(unsigned n) {
  std::uint32_t value = 0x80000000u;  // 1, reversed
  for (unsigned i = 0; i < n; ++i) value = (value >> 1) ^ (value & 1 ? polynomial : 0);
  return std::uint64_t{value} << 1;
}
constexpr Fold fold_by(unsigned bits) { return {power(bits + 32), power(bits - 32)}; }

__attribute__((target("pclmul,sse4.1"))) inline __m128i folded(__m128i x, __m128i factors, __m128i next) noexcept {
  const __m128i low = _mm_clmulepi64_si128(x, factors, 0x00), high = _mm_clmulepi64_si128(x, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/// At least 64 bytes: four lanes are folded over 512 bits, then into one, whose 16 bytes have the remainder of all.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t by_multiplication(const unsigned char* data, std::size_t size,
                                                                         std::uint32_t value) noexcept {
  constexpr Fold far = fold_by(512), near = fold_by(128);
  const __m128i over_four = _mm_set_epi64x(static_cast<long long>(far.high), static_cast<long long>(far.low));
  const __m128i over_one = _mm_set_epi64x(static_cast<long long>(near.high), static_cast<long long>(near.low));
  __m128i lane[4];
  for (int i = 0; i < 4; ++i) lane[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i);
  lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128(static_cast<int>(value)));
  for (data += 64, size -= 64; size >= 64; data += 64, size -= 64)
    for (int i = 0; i < 4; ++i)
      lane[i] = folded(lane[i], over_four, _mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i));
  __m128i all = lane[0];
  for (int i = 1; i < 4; ++i) all = folded(all, over_one, lane[i]);
  for (; size >= 16; data += 16, size -= 16)
    all = folded(all, over_one, _mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
  alignas(16) unsigned char rest[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(rest), all);
  return Table::bytewise(data, size, Table::bytewise(rest, sizeof rest, 0));
}
#endif

}  // namespace

std::uint32_t crc32_by_table(const void* data, std::size_t size, std::uint32_t before) noexcept {
  return ~Table::bytewise(static_cast<const unsigned char*>(data), size, ~before);
}

std::uint32_t crc32(const void* data, std::size_t size, std::uint32_t before) noexcept {
#if defined(__x86_64__)
  static const bool multiplication = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (multiplication && size >= 64) return ~by_multiplication(static_cast<const unsigned char*>(data), size, ~before);
#endif
  return crc32_by_table(data, size, before);
}

}  // namespace flagstone
