#include "flagstone/runtime/spaces/strided_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace flagstone {
namespace {

Tile tile(const Shape& shape, const Shape& strides) { return {nullptr, Dtype::float64, shape, strides, 0}; }

TEST(StridedRows, AreAsFewAndLongAsTheyCanBe) {
  const Tile dense = tile({4, 5, 6}, {240, 48, 8});
  EXPECT_EQ(rows_of(dense, dense).width, 960u);
  EXPECT_EQ(rows_of(dense, dense).height, 1u);
  const StridedRows panel = rows_of(tile({40, 6}, {800, 8}), tile({40, 6}, {48, 8}));  // of a matrix 100 wide
  EXPECT_EQ(panel.width, 48u);
  EXPECT_EQ(panel.height, 40u);
  EXPECT_EQ(panel.from_pitch, 800u);
  EXPECT_EQ(panel.to_pitch, 48u);
  EXPECT_TRUE(panel.outer.empty());
  const StridedRows stack = rows_of(tile({3, 40, 6}, {1 << 20, 800, 8}), tile({3, 40, 6}, {1920, 48, 8}));
  EXPECT_EQ(stack.height, 40u);
  ASSERT_EQ(stack.outer.size(), 1u);
  EXPECT_EQ(stack.outer[0].extent, 3);
  // Pitches of 2 GiB and more go row by row.
  const StridedRows far = rows_of(tile({9, 6}, {Index{1} << 32, 8}), tile({9, 6}, {48, 8}));
  EXPECT_EQ(far.height, 1u);
  EXPECT_EQ(far.outer.at(0).extent, 9);
}

TEST(StridedRows, CopyWhatCopyCopies) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const std::size_t dims = 1 + random() % 4;
    Shape shape, order(dims);
    for (std::size_t d = 0; d < dims; ++d) {
      shape.push_back(1 + static_cast<Index>(random() % 6));
      order[d] = static_cast<Index>(d);
    }
    const auto strided = [&](std::vector<std::byte>& memory) {
      if (round % 3 == 0) std::shuffle(order.begin(), order.end(), random);
      Tile made = tile(shape, Shape(dims));
      Index step = round % 5 == 0 ? 16 : 8;
      for (const Index d : order) made.strides[d] = step, step *= shape[d] + static_cast<Index>(random() % 3);
      memory.resize(static_cast<std::size_t>(step + 8));
      for (std::byte& b : memory) b = static_cast<std::byte>(random());
      made.data = memory.data();
      return made;
    };
    std::vector<std::byte> from_memory, to_memory;
    const Tile from = strided(from_memory), to = strided(to_memory);
    std::vector<std::byte> want = to_memory;
    Tile twin = to;
    twin.data = want.data();
    copy(from, twin);
    const StridedRows rows = rows_of(from, to);
    each_block(rows, from, to, [&](const std::byte* source, std::byte* target) {
      for (std::size_t y = 0; y < rows.height; ++y)
        std::memcpy(target + y * rows.to_pitch, source + y * rows.from_pitch, rows.width);
    });
    ASSERT_EQ(to_memory, want) << to_string(shape);
  }
}

}  // namespace
}  // namespace flagstone
