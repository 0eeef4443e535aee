#include "flagstone/kernel/random/philox.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "flagstone/kernel/random/draw.hpp"

namespace flagstone::kernel {
namespace {

/// Known answers of the authors' Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryInstructionSetGivesTheWordsOfTheDefinition) {
  const Stream stream{{0xa4093822, 0x299f31d0}, 77};
  std::vector<PhiloxBlocks> all{philox_blocks_baseline};
#ifdef FLAGSTONE_WIDE_KERNELS
  if (__builtin_cpu_supports("avx2")) all.push_back(philox_blocks_avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) all.push_back(philox_blocks_avx512);
#endif
  constexpr std::uint64_t first = (std::uint64_t{1} << 32) - 20;  // across the counter's first word
  for (const std::int64_t n : {0, 1, 7, 16, 45})
    for (const PhiloxBlocks blocks : all) {
      std::vector<std::uint64_t> words(static_cast<std::size_t>(2 * n) + 1, 42);
      blocks(stream, first, n, words.data());
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint64_t block = first + static_cast<std::uint64_t>(i);
        const PhiloxCounter c =
            philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 77}, stream.key);
        const auto at = static_cast<std::size_t>(2 * i);
        ASSERT_EQ(words[at], c[0] | std::uint64_t{c[1]} << 32);
        ASSERT_EQ(words[at + 1], c[2] | std::uint64_t{c[3]} << 32);
      }
      EXPECT_EQ(words.back(), 42u);  // nothing beyond
    }
}

TEST(Philox, WordsAreThoseOfTheirPlaceWhereverOneBegins) {
  const Stream stream{{1, 2}, 3};
  std::vector<std::uint64_t> all(100), part(100);
  random_words(stream, 0, 100, all.data());
  for (const std::uint64_t first : {0u, 1u, 2u, 33u})
    for (const std::int64_t n : {0, 1, 2, 5, 60}) {
      random_words(stream, first, n, part.data());
      for (std::int64_t i = 0; i < n; ++i)
        ASSERT_EQ(part[static_cast<std::size_t>(i)], all[first + static_cast<std::uint64_t>(i)]);
    }
}

TEST(Draw, ABoxHasTheNumbersOfItsPlaces) {
  Draw normal;
  normal.distribution = Distribution::normal;
  normal.stream = {{5, 6}, 7};
  const Shape shape{6, 5, 7};
  std::vector<double> all(6 * 5 * 7), box(2 * 3 * 4);
  const auto tile = [](std::vector<double>& values, const Shape& extents) {
    return Tile{reinterpret_cast<std::byte*>(values.data()), Dtype::float64, extents, c_strides(extents, 8),
                8 * values.size()};
  };
  draw(normal, shape, whole(shape), tile(all, shape));
  draw(normal, shape, {{3, 1, 2}, {2, 3, 4}}, tile(box, {2, 3, 4}));
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 4; ++k)
        EXPECT_EQ(box[static_cast<std::size_t>((i * 3 + j) * 4 + k)],
                  all[static_cast<std::size_t>(((3 + i) * 5 + 1 + j) * 7 + 2 + k)]);
}

}  // namespace
}  // namespace flagstone::kernel
