#include "flagstone/algorithms/linalg/device_order.hpp"

#include <cmath>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"

namespace flagstone::linalg {
namespace {

constexpr Index n = 16384;

struct Product {
  Operand a{planned_array({n, n}, Dtype::float32, {1024, 1024})},
      b{planned_array({n, n}, Dtype::float32, {1024, 1024})};
  Array c = planned_array({n, n}, Dtype::float32, {1024, 1024});
  ProductTile tile = product_tile(a, b, c);
  Index steps = ceil_div(n, tile.depth);

  ProductOrder order(std::uint64_t host, std::uint64_t device) const {
    return choose_order(a, b, c, tile, host, device, 2);
  }
  /// Of C's sub-block and two steps of its operands.
  std::uint64_t on_device(const ProductOrder& order) const {
    const Index rows = order.sub_rows * tile.rows, cols = order.sub_cols * tile.cols;
    return 4 * static_cast<std::uint64_t>(rows * cols + 2 * (rows + cols) * tile.depth);
  }
};

TEST(ProductTile, IsLargerForACardByKindAlone) {
  const Product product;
  const ProductTile large = product_tile(product.a, product.b, product.c, 1, true);
  EXPECT_EQ(large.rows, 2048);
  EXPECT_EQ(large.depth, 2048);
  EXPECT_LT(product.tile.depth, large.depth);
  const Operand wide{planned_array({n, n}, Dtype::float64, {1024, 1024})};
  EXPECT_EQ(product_tile(wide, wide, wide.array).rows, 1024);
  EXPECT_EQ(product_tile(wide, wide, wide.array, 1, true).rows, 2048);
}

TEST(DeviceOrder, WithoutADeviceItIsTheHostsSuperblock) {
  const Product product;
  for (const std::uint64_t host : {128 * MiB, 1 * GiB}) {
    const ProductOrder order = product.order(host, 0);
    const Superblock alone = choose_superblock(product.a, product.b, product.c, product.tile, host, 2);
    EXPECT_EQ(order.size.tile_rows, alone.tile_rows);
    EXPECT_EQ(order.size.tile_cols, alone.tile_cols);
    EXPECT_EQ(order.sub_rows, alone.tile_rows);
    EXPECT_EQ(order.sub_cols, alone.tile_cols);
    EXPECT_TRUE(order.one_panel(product.steps));
  }
}

TEST(DeviceOrder, SubBlocksMoveTheLeastThatFits) {
  const Product product;
  for (const std::uint64_t device : {64 * MiB, 128 * MiB, 512 * MiB}) {
    const ProductOrder order = product.order(8 * GiB, device);
    EXPECT_LE(product.on_device(order), device);
    EXPECT_TRUE(order.one_panel(product.steps));  // C comes and goes once
    const LinkBytes link =
        link_bytes({n, n, n}, 4, order.sub_rows * product.tile.rows, order.sub_cols * product.tile.cols);
    const double bound = 2 * std::pow(4, 1.5) * std::pow(n, 3) / std::sqrt(static_cast<double>(device));
    EXPECT_LE(link.in / bound, device == 512 * MiB ? 1.6 : 2.3);
    for (Index rows = 1; rows <= 8; ++rows)
      for (Index cols = 1; cols <= 8; ++cols) {
        ProductOrder other = order;
        other.sub_rows = rows, other.sub_cols = cols;
        if (product.on_device(other) <= device) {
          EXPECT_LE(link.in, link_bytes({n, n, n}, 4, rows * product.tile.rows, cols * product.tile.cols).in);
        }
      }
  }
}

/// Sub-blocks as wide as C: rows of A pass, B stays, so that C comes and goes once where the host holds no more.
TEST(DeviceOrder, SumsOfCStayOnTheDeviceWhereOneOperandFitsTheHost) {
  const Product product;
  const ProductOrder order = product.order(2 * GiB, 1 * GiB);  // B is 1 GiB, a sub-block of C half as much
  EXPECT_EQ(order.sub_cols, 8);
  EXPECT_LT(order.sub_rows, 8);
  EXPECT_EQ(order.size.tile_rows, 8);
  EXPECT_TRUE(order.one_panel(product.steps));
}

/// Where disk, host and device are all too small, panels keep the disk from being read as often as the device is.
TEST(DeviceOrder, PanelsKeepTheDiskFromTheDevicesBlocks) {
  const Product product;
  const std::uint64_t host = 256 * MiB;
  const ProductOrder alone = product.order(host, 0), beside = product.order(host, 64 * MiB);
  const auto rows = [](const ProductOrder& order) { return ceil_div(8, order.size.tile_rows); };
  const auto cols = [](const ProductOrder& order) { return ceil_div(8, order.size.tile_cols); };
  const Index reads = beside.one_panel(product.steps) ? 1 + rows(beside) : rows(beside) + cols(beside);
  EXPECT_LE(reads, rows(alone) + cols(alone));  // of all of A and of B
  EXPECT_LE(product.on_device(beside), 64 * MiB);
  EXPECT_EQ(beside.size.tile_rows % beside.sub_rows, 0);
}

TEST(DeviceOrder, AHostWithoutRoomHasTheSmallest) {
  const Product product;
  const ProductOrder order = product.order(0, 64 * MiB);
  EXPECT_EQ(order.size.tile_rows, order.sub_rows);
  EXPECT_EQ(order.size.tile_cols, order.sub_cols);
}

}  // namespace
}  // namespace flagstone::linalg
