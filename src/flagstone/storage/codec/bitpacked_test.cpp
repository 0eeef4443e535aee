#include "flagstone/storage/codec/bitpacked.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace flagstone {
namespace {

template <class T>
std::vector<std::byte> packed(const std::vector<T>& values) {
  std::vector<std::byte> to(most_bitpacked(values.size() * sizeof(T), sizeof(T)));
  to.resize(pack_bits(std::as_bytes(std::span(values)), sizeof(T), to));
  return to;
}

template <class T>
void expect_round(const std::vector<T>& values) {
  const auto bytes = packed(values);
  std::vector<T> back(values.size());
  const auto got = unpack_bits(bytes, sizeof(T), std::as_writable_bytes(std::span(back)));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(*got, values.size() * sizeof(T));
  EXPECT_EQ(back, values);
}

template <class T>
void expect_all_rounds() {
  std::mt19937_64 random(7);
  const T most = std::numeric_limits<T>::max();
  for (std::size_t n : {0u, 1u, 127u, 128u, 129u, 1000u})
    for (std::uint64_t spread : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{300}, std::uint64_t{most}}) {
      std::vector<T> values(n);
      for (T& value : values) value = static_cast<T>(spread == most ? random() : random() % (spread + 1));
      expect_round(values);
      for (std::size_t i = 0; i < n; i += 2) values[i] = i % 4 ? most : T{0};  // the largest steps both ways
      expect_round(values);
    }
}

TEST(BitPacked, EveryValueComesBack) {
  expect_all_rounds<std::uint8_t>();
  expect_all_rounds<std::uint16_t>();
  expect_all_rounds<std::uint32_t>();
  expect_all_rounds<std::uint64_t>();
}

TEST(BitPacked, RowsOfARandomGraphTakeLittleMoreThanTheirEntropy) {
  std::mt19937_64 random(1);
  std::vector<std::uint32_t> values;
  for (int row = 0; row < 2000; ++row) {
    std::vector<std::uint32_t> columns(20);
    for (auto& column : columns) column = static_cast<std::uint32_t>(random() >> 44);  // 2^20 vertices
    std::sort(columns.begin(), columns.end());
    values.insert(values.end(), columns.begin(), columns.end());
  }
  const double bits = 8.0 * static_cast<double>(packed(values).size()) / static_cast<double>(values.size());
  EXPECT_LT(bits, std::log2(std::exp(1.0) * (1 << 20) / 20) + 2);
}

TEST(BitPacked, DamageIsNoticedAndNothingIsReadOrWrittenBeyondTheEnds) {
  std::vector<std::uint32_t> values(500);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i * i % 7919);
  const auto bytes = packed(values);
  std::vector<std::uint32_t> back(values.size());
  const auto to = std::as_writable_bytes(std::span(back));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(unpack_bits({bytes.data(), length}, 4, to).has_value()) << length;
  EXPECT_FALSE(unpack_bits(bytes, 4, to.first(1996)).has_value());
  EXPECT_FALSE(unpack_bits(bytes, 3, to).has_value());
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {  // under a sanitizer this would end
    auto damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    unpack_bits(damaged, 4, to);
  }
}

}  // namespace
}  // namespace flagstone
