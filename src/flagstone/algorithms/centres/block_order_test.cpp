// What stays in memory, by bytes.
#include "flagstone/algorithms/centres/block_order.hpp"

#include <gtest/gtest.h>

namespace flagstone::centres {
namespace {

/// 100 panels of 8 against 10 blocks of 6; sums of a block take 40.
BlockSizes sizes(double room, bool sums) {
  return {.points = 800,
          .panel = 8,
          .state = 40,
          .panels = 100,
          .block = 6,
          .sums_block = 40,
          .blocks = 10,
          .room = room,
          .sums = sums};
}

TEST(BlockOrder, ReadsAllOnceWhereBlocksFit) {
  const BlockOrder order = choose_order(sizes(60, false));
  EXPECT_FALSE(order.points_stay);
  EXPECT_EQ(order.stay, 10);
  EXPECT_EQ(order.point_reads, 1);
  EXPECT_EQ(order.bytes, 800 + 60);
  EXPECT_EQ(told(order, sizes(60, false)), "10 of 10 blocks of centers stay while X streams past");
}

TEST(BlockOrder, PanelsStayWhereTheyAreTheLesser) {
  BlockSizes many = sizes(48, false);
  many.panels = 6, many.points = 48, many.state = 2, many.blocks = 500;
  const BlockOrder order = choose_order(many);
  EXPECT_TRUE(order.points_stay);
  EXPECT_EQ(order.stay, 6);
  EXPECT_EQ(order.bytes, 48 + 500 * 6);  // each once
  EXPECT_EQ(told(order, many), "6 of 6 panels of X stay while 500 blocks of centers stream past");
}

TEST(BlockOrder, OfTwoThatDoNotFitTheOneWithFewerBytes) {
  // Five blocks at a time: 2 * 800 + 2 * 40 + 60; three panels at a time: 800 + 34 * 60.
  const BlockOrder order = choose_order(sizes(30, false));
  EXPECT_FALSE(order.points_stay);
  EXPECT_EQ(order.stay, 5);
  EXPECT_EQ(order.point_reads, 2);
  EXPECT_EQ(order.bytes, 1740);
}

TEST(BlockOrder, SumsAreAddedWhilePanelsAreThere) {
  const BlockOrder roomy = choose_order(sizes(10 * 40 + 60, true));
  EXPECT_EQ(roomy.fused, 10);
  EXPECT_EQ(roomy.point_reads, 1);
  // One block of sums beside five blocks of centres, then two reads for nine others, four or five at a time: two of
  // sums beside the ten that stay would be as many reads.
  const BlockOrder order = choose_order(sizes(200, true));
  EXPECT_EQ(order.group, 5);
  EXPECT_EQ(order.point_reads, 1 + (10 - order.fused + 4) / 5);
  EXPECT_GE(200 - 40 * static_cast<double>(order.fused), 60);  // all blocks of centres stay beside them
}

TEST(BlockOrder, HasAnAnswerWithoutRoom) {
  const BlockOrder order = choose_order(sizes(-5, true));
  EXPECT_EQ(order.stay, 1);
  EXPECT_EQ(order.group, 1);
  EXPECT_EQ(order.fused, 0);
  EXPECT_EQ(order.point_reads, order.points_stay ? 11 : 20);
}

}  // namespace
}  // namespace flagstone::centres
