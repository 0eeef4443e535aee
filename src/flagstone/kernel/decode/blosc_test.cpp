#include "flagstone/kernel/decode/blosc.hpp"

#include <blosc.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace flagstone::kernel {
namespace {

std::vector<std::byte> pack(const std::vector<std::uint32_t>& values, int level, int type) {
  std::vector<std::byte> packed(values.size() * 4 + BLOSC_MAX_OVERHEAD);
  const int n = blosc_compress_ctx(level, BLOSC_SHUFFLE, static_cast<std::size_t>(type), values.size() * 4,
                                   values.data(), packed.data(), packed.size(), "lz4", 0, 1);
  EXPECT_GT(n, 0);
  packed.resize(static_cast<std::size_t>(n));
  return packed;
}

std::vector<std::uint32_t> numbers(Index n, std::uint32_t below) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> values(static_cast<std::size_t>(n));
  for (auto& value : values) value = static_cast<std::uint32_t>(random()) % below;
  return values;
}

const char* decode(std::span<const std::byte> encoded, std::size_t item, Index elements, Index first, Index count,
                   void* to, std::size_t workspace = decode_workspace) {
  std::vector<std::byte> memory(workspace);
  return decode_blosc(encoded, item, elements, first, count, static_cast<std::byte*>(to), memory);
}

TEST(Decode, AnyRangeOfAnyChunk) {
  for (std::uint32_t below : {5u, 0xffffffffu})  // packs well; does not pack (stored)
    for (int level : {0, 1, 5, 9})
      for (int type : {4, 1, 8, 16}) {
        const Index n = 300000;
        const auto values = numbers(n, below);
        const auto packed = pack(values, level, type);
        for (auto [first, count] :
             {std::pair<Index, Index>{0, n}, {0, 1}, {n - 1, 1}, {131072, 131072}, {77, 200001}, {5, 0}}) {
          std::vector<std::uint32_t> got(static_cast<std::size_t>(count) + 1, 0xdeadbeef);
          ASSERT_EQ(decode(packed, 4, n, first, count, got.data()), nullptr);
          EXPECT_EQ(0, std::memcmp(got.data(), values.data() + first, static_cast<std::size_t>(count) * 4));
          EXPECT_EQ(got.back(), 0xdeadbeef);
        }
      }
}

TEST(Decode, EveryFilterAndCodecInAnyWorkspace) {
  const Index n = 70001;  // the last block is shorter, and no whole number of elements of 3 bytes
  const auto values = numbers(n, 900);
  for (const char* codec : {"lz4", "lz4hc", "blosclz", "zlib", "zstd"})
    for (int filter : {BLOSC_NOSHUFFLE, BLOSC_SHUFFLE, BLOSC_BITSHUFFLE})
      for (std::size_t type : {1, 2, 3, 4, 8, 12, 17})
        for (std::size_t block : {0, 4096}) {
          std::vector<std::byte> packed(values.size() * 4 + BLOSC_MAX_OVERHEAD);
          const int bytes = blosc_compress_ctx(5, filter, type, values.size() * 4, values.data(), packed.data(),
                                               packed.size(), codec, block, 1);
          if (bytes < 0) continue;  // a codec that this libblosc was built without
          packed.resize(static_cast<std::size_t>(bytes));
          for (auto [first, count] : {std::pair<Index, Index>{0, n}, {1023, 3}, {n - 5, 5}, {30, 69900}})
            for (std::size_t workspace : {std::size_t{0}, decode_workspace}) {
              std::vector<std::uint32_t> got(static_cast<std::size_t>(count));
              ASSERT_EQ(decode(packed, 4, n, first, count, got.data(), workspace), nullptr);
              ASSERT_EQ(0, std::memcmp(got.data(), values.data() + first, got.size() * 4))
                  << codec << ' ' << filter << ' ' << type << ' ' << block << ' ' << first;
            }
        }
}

TEST(Decode, AbsentChunkIsZero) {
  std::vector<std::uint32_t> got(10, 7);
  EXPECT_EQ(decode({}, 4, 100, 20, 10, got.data()), nullptr);
  EXPECT_EQ(got, std::vector<std::uint32_t>(10, 0));
}

TEST(Decode, DamageIsReportedAndNeverRunsOut) {
  const Index n = 100000;
  const auto packed = pack(numbers(n, 50), 5, 4);
  std::vector<std::uint32_t> got(static_cast<std::size_t>(n));
  auto* to = reinterpret_cast<std::byte*>(got.data());
  EXPECT_NE(decode(std::span(packed).first(7), 4, n, 0, n, to), nullptr);
  EXPECT_NE(decode(std::span(packed).first(packed.size() - 1), 4, n, 0, n, to), nullptr);
  EXPECT_NE(decode(packed, 4, n + 1, 0, n, to), nullptr);
  EXPECT_NE(decode(packed, 4, n, n - 1, 2, to), nullptr);
  EXPECT_NE(decode(packed, 8, n, 0, n, to), nullptr);
  std::mt19937 random(2);
  int reported = 0;
  for (int round = 0; round < 2000; ++round) {  // the memory is exactly as long as the chunk: sanitizers watch
    std::vector<std::byte> damaged(packed);
    const std::size_t at = round % 2 ? random() % 64 : random() % damaged.size();
    damaged[at] = static_cast<std::byte>(random());
    reported += decode(damaged, 4, n, 0, n, to) != nullptr;
    decode(damaged, 4, n, 50, 99, to);
  }
  EXPECT_GT(reported, 200);
}

}  // namespace
}  // namespace flagstone::kernel
