#include "flagstone/kernel/dense/rearrange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "flagstone/base/error.hpp"

namespace flagstone::kernel {
namespace {

/// Element by element, as the definition says.
void naive(const Tile& from, const Tile& to) {
  const std::size_t item = size_of(to.dtype);
  Shape at(to.shape.size(), 0);
  for (Index i = 0; i < count(to.shape); ++i) {
    Index a = 0, b = 0, left = i;
    for (std::size_t d = to.shape.size(); d-- > 0; left /= to.shape[d])
      a += left % to.shape[d] * from.strides[d], b += left % to.shape[d] * to.strides[d];
    std::memcpy(to.data + b, from.data + a, item);
  }
}

TEST(Rearrange, AgreesWithTheDefinitionForAnyOrderOffsetAndPadding) {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<Index>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 400; ++round) {
    const Dtype dtype = static_cast<Dtype>(below(14));
    const auto item = static_cast<Index>(size_of(dtype));
    const auto dims = static_cast<std::size_t>(below(5));
    Shape shape(dims);
    for (Index& extent : shape) extent = dims < 3 ? below(70) : below(12);
    // Each side has an order of its own, rows that are padded, and starts anywhere.
    const auto tile_in = [&](std::vector<std::byte>& memory) {
      std::vector<std::size_t> order(dims);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      Tile tile{nullptr, dtype, shape, Shape(dims), 0};
      Index step = item;
      for (std::size_t d : order) tile.strides[d] = step, step *= std::max<Index>(1, shape[d]) + below(3);
      memory.resize(static_cast<std::size_t>(step + item + 8));
      for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
      tile.data = memory.data() + below(8);
      return tile;
    };
    std::vector<std::byte> source, target, expected;
    const Tile from = tile_in(source);
    Tile to = tile_in(target);
    expected = target;
    Tile twin = to;
    twin.data = expected.data() + (to.data - target.data());
    naive(from, twin);
    rearrange(from, to);
    ASSERT_EQ(target, expected) << to_string(shape) << " " << name_of(dtype);
  }
}

TEST(Rearrange, RefusesTilesThatDiffer) {
  float x[6] = {};
  const Tile a{reinterpret_cast<std::byte*>(x), Dtype::float32, {2, 3}, {12, 4}, 0};
  const Tile b{reinterpret_cast<std::byte*>(x), Dtype::float32, {3, 2}, {8, 4}, 0};
  EXPECT_THROW(rearrange(a, b), ShapeError);
}

}  // namespace
}  // namespace flagstone::kernel
