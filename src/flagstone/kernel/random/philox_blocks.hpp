#pragma once
// The loop of philox.hpp, compiled once per instruction set: nothing inline that the linker could share.
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "flagstone/kernel/random/philox.hpp"

namespace flagstone::kernel {
namespace {

constexpr std::uint32_t multiply_0 = 0xD2511F53, multiply_1 = 0xCD9E8D57;  // the paper's constants
constexpr std::uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;
constexpr int rounds = 10;

// The low 32 bits of each word of 64 multiplied: one instruction, which no compiler finds by itself.
#if defined(__AVX512F__)
using Vector = __m512i;
Vector times(Vector a, Vector b) { return _mm512_mul_epu32(a, b); }
#elif defined(__AVX2__)
using Vector = __m256i;
Vector times(Vector a, Vector b) { return _mm256_mul_epu32(a, b); }
#elif defined(__SSE2__)
using Vector = __m128i;
Vector times(Vector a, Vector b) { return _mm_mul_epu32(a, b); }
#else
struct Vector {
  std::uint64_t word;
};
Vector times(Vector a, Vector b) { return {(a.word & 0xffffffff) * (b.word & 0xffffffff)}; }
#endif
using Words = std::uint64_t __attribute__((vector_size(sizeof(Vector)), may_alias));
constexpr int lanes = sizeof(Vector) / 8;
constexpr int side_by_side = 4;  // vectors: a multiplication takes as long as several are begun in

Words low_times(Words a, Words b) {
  const Vector product = times(reinterpret_cast<const Vector&>(a), reinterpret_cast<const Vector&>(b));
  return reinterpret_cast<const Words&>(product);
}

/// Counters side by side, each word of 32 bits in one of 64.
void blocks(const Stream& stream, std::uint64_t first, std::int64_t n, std::uint64_t* to) {
  constexpr int width = lanes * side_by_side;
  Words next{};
  for (int j = 0; j < lanes; ++j) next[j] = static_cast<std::uint64_t>(j);
  const Words low = Words{} + 0xffffffff, m0 = Words{} + multiply_0, m1 = Words{} + multiply_1;
  for (std::int64_t at = 0; at < n; at += width) {
    Words c0[side_by_side], c1[side_by_side], c2[side_by_side], c3[side_by_side];
    for (int v = 0; v < side_by_side; ++v) {
      const Words block = next + (first + static_cast<std::uint64_t>(at + v * lanes));
      c0[v] = block & low, c1[v] = block >> 32, c2[v] = Words{}, c3[v] = Words{} + stream.call;
    }
    std::uint32_t k0 = stream.key[0], k1 = stream.key[1];
    for (int r = 0; r < rounds; ++r, k0 += weyl_0, k1 += weyl_1)
      for (int v = 0; v < side_by_side; ++v) {
        // Only low halves are multiplied and kept: what stands above them does no harm before the end.
        const Words p0 = low_times(c0[v], m0), p1 = low_times(c2[v], m1);
        c0[v] = (p1 >> 32) ^ c1[v] ^ k0, c1[v] = p1;
        c2[v] = (p0 >> 32) ^ c3[v] ^ k1, c3[v] = p0;
      }
    for (int v = 0; v < side_by_side; ++v) {
      const Words even = (c0[v] & low) | c1[v] << 32, odd = (c2[v] & low) | c3[v] << 32;
      const std::int64_t from = at + v * lanes;
      for (std::int64_t j = 0; j < lanes && from + j < n; ++j)
        to[2 * (from + j)] = even[j], to[2 * (from + j) + 1] = odd[j];
    }
  }
}

}  // namespace
}  // namespace flagstone::kernel
