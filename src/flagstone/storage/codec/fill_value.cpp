#include "flagstone/storage/codec/fill_value.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace flagstone {
namespace {

constexpr std::size_t step = 64, block = 64 * step;

/// Bits of `n` bytes, a multiple of 64, that differ from the pattern.
std::uint64_t differing(const std::byte* data, std::size_t n, const std::array<std::uint64_t, 8>& pattern) {
  std::array<std::uint64_t, 8> differ{};
  for (std::size_t at = 0; at < n; at += step) {
    std::array<std::uint64_t, 8> words;
    std::memcpy(words.data(), data + at, step);
    for (std::size_t i = 0; i < 8; ++i) differ[i] |= words[i] ^ pattern[i];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t one : differ) all |= one;
  return all;
}

}  // namespace

bool is_filled(std::span<const std::byte> data, std::span<const std::byte> element) {
  std::array<std::byte, step> repeated;
  for (std::size_t i = 0; i < step; i += element.size()) std::copy(element.begin(), element.end(), &repeated[i]);
  std::array<std::uint64_t, 8> pattern;
  std::memcpy(pattern.data(), repeated.data(), step);
  const std::size_t whole = data.size() / step * step;
  // The first 64 bytes tell most chunks; then by blocks, so that the loop inside has no branches.
  std::size_t n = step;
  for (std::size_t at = 0; at < whole; at += n, n = block) {
    n = std::min(n, whole - at);
    if (differing(data.data() + at, n, pattern) != 0) return false;
  }
  const std::size_t rest = data.size() - whole;  // of nothing there may be no pointer
  return rest == 0 || std::memcmp(data.data() + whole, repeated.data(), rest) == 0;
}

}  // namespace flagstone
