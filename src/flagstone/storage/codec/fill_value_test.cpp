#include "flagstone/storage/codec/fill_value.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace flagstone {
namespace {

template <class T>
std::vector<std::byte> repeated(T value, std::size_t n) {
  std::vector<std::byte> bytes(n * sizeof(T));
  for (std::size_t i = 0; i < n; ++i) std::memcpy(&bytes[i * sizeof(T)], &value, sizeof value);
  return bytes;
}

/// The naive one: byte after byte.
bool naive(const std::vector<std::byte>& data, std::span<const std::byte> element) {
  for (std::size_t i = 0; i < data.size(); ++i)
    if (data[i] != element[i % element.size()]) return false;
  return true;
}

TEST(Fill, AFlippedBitAnywhereShows) {
  std::array<std::byte, 16> element;
  for (std::size_t i = 0; i < 16; ++i) element[i] = static_cast<std::byte>(i + 1);
  for (std::size_t item : {1u, 2u, 4u, 8u, 16u}) {
    const std::span<const std::byte> one(element.data(), item);
    for (std::size_t n : {0u, 1u, 3u, 8u, 63u, 64u, 1000u, 9000u}) {
      std::vector<std::byte> data;
      for (std::size_t i = 0; i < n; ++i) data.insert(data.end(), one.begin(), one.end());
      EXPECT_TRUE(is_filled(data, one));
      for (std::size_t at = 0; at < data.size(); at += 1 + at / 50) {
        data[at] ^= std::byte{0x80};
        EXPECT_FALSE(is_filled(data, one)) << item << " " << n << " " << at;
        EXPECT_FALSE(naive(data, one));
        data[at] ^= std::byte{0x80};
      }
    }
  }
}

TEST(Fill, BitsCountNotValues) {
  const auto zero = repeated(0.0, 1);
  EXPECT_TRUE(is_filled(repeated(0.0, 1000), zero));
  EXPECT_FALSE(is_filled(repeated(-0.0, 1000), zero));
}

}  // namespace
}  // namespace flagstone
