#include "flagstone/base/grid.hpp"

#include <gtest/gtest.h>

namespace flagstone {
namespace {

TEST(Grid, CountsCellsThatCoverAShape) {
  EXPECT_EQ(grid_of({10, 8, 1, 0}, {4, 4, 7, 3}), (Shape{3, 2, 1, 0}));
  EXPECT_EQ(grid_of({}, {}), Shape());
}

TEST(Grid, AdvancesInCOrderAndEndsWhereItBegan) {
  std::vector<Shape> expected, seen;
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 2; ++k) expected.push_back({i, j, k});
  Shape at{0, 0, 0};
  do seen.push_back(at);
  while (advance(at, {2, 3, 2}));
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(at, (Shape{0, 0, 0}));
}

TEST(Grid, AdvancesBetweenTwoCorners) {
  const Shape first{5, 2}, last{7, 4};
  std::vector<Shape> seen;
  Shape at = first;
  do seen.push_back(at);
  while (advance(at, first, last));
  EXPECT_EQ(seen, (std::vector<Shape>{{5, 2}, {5, 3}, {6, 2}, {6, 3}}));
  EXPECT_EQ(at, first);
}

TEST(Grid, WalksLeadingDimensionsAlone) {
  Shape at{0, 0};
  int places = 1;
  while (advance(at, {2, 3, 1000})) ++places;
  EXPECT_EQ(places, 6);
}

TEST(Grid, HasOnePlaceWithoutDimensions) {
  Shape at;
  EXPECT_FALSE(advance(at, {}));
  int boxes = 0;
  for_each_box({}, {}, {}, [&](const Box&) { ++boxes; });
  EXPECT_EQ(boxes, 1);
}

TEST(Grid, CutsABoxInTheOrderOfLoopsAndClipsTheLastOnes) {
  std::vector<Box> seen;
  for_each_box({{1, 10}, {3, 5}}, {2, 4}, {1, 0}, [&](const Box& box) { seen.push_back(box); });
  EXPECT_EQ(seen, (std::vector<Box>{{{1, 10}, {2, 4}}, {{3, 10}, {1, 4}}, {{1, 14}, {2, 1}}, {{3, 14}, {1, 1}}}));
}

}  // namespace
}  // namespace flagstone
