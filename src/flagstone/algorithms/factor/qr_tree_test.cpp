#include "flagstone/algorithms/factor/qr_tree.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace flagstone::linalg {
namespace {

using Step = QrTree::Step;

class Trees : public testing::TestWithParam<std::tuple<std::pair<Index, Index>, QrCut>> {
 protected:
  QrTree tree() const {
    const auto& [shape, cut] = GetParam();
    return {shape.first, shape.second, Dtype::float64, cut};
  }
};

TEST_P(Trees, EveryTileMeetsOnceAndOneTriangleIsLeft) {
  const QrTree tree = this->tree();
  for (Index k = 0; k < tree.panels; ++k)
    for (const Index beside : {1, 2, 7, 1000}) {
      std::set<Index> seen, heads;
      for (const Step& step : tree.steps(k, beside)) {
        if (step.kind == Step::merge) {
          // The chains of both groups are over.
          for (const Index head : {step.top, step.tile})
            for (Index i = head; i < tree.row_tiles && tree.group_of(i) == tree.group_of(head); ++i)
              ASSERT_TRUE(seen.contains(i));
          EXPECT_TRUE(heads.contains(step.top));
          EXPECT_EQ(heads.erase(step.tile), 1u);
          continue;
        }
        EXPECT_TRUE(seen.insert(step.tile).second);
        if (step.kind == Step::head) {
          EXPECT_EQ(step.top, step.tile);
          // A triangle that others are put on is whole.
          if (step.tile + 1 < tree.row_tiles)
            EXPECT_GE(tree.height(step.tile) - tree.above(k, step.tile), tree.width(k));
          heads.insert(step.tile);
          // Those of chains side by side, and one for each bit of the number of groups before.
          EXPECT_LE(static_cast<Index>(heads.size()), std::min<Index>(beside, tree.groups) + 7);
        } else {
          EXPECT_TRUE(heads.contains(step.top));
          EXPECT_EQ(tree.group_of(step.top), tree.group_of(step.tile));
        }
      }
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(tree.row_tiles - tree.start(k)));
      EXPECT_EQ(heads, std::set<Index>{tree.start(k)});
    }
}

TEST_P(Trees, WhatATileSeesDoesNotDependOnTheOrder) {
  const QrTree tree = this->tree();
  for (Index k = 0; k < tree.panels; ++k) {
    const auto seen_by = [&](Index beside) {
      std::map<Index, std::vector<Index>> seen;  // by the head, in its order
      for (const Step& step : tree.steps(k, beside)) seen[step.top].push_back(step.tile);
      return seen;
    };
    EXPECT_EQ(seen_by(1), seen_by(5));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Trees,
    testing::Combine(testing::Values(std::pair<Index, Index>{1, 1}, std::pair<Index, Index>{4'000'000, 256},
                                     std::pair<Index, Index>{100'001, 300}, std::pair<Index, Index>{10'001, 1'100},
                                     std::pair<Index, Index>{700, 3'000}, std::pair<Index, Index>{3'000, 2'999},
                                     std::pair<Index, Index>{0, 5}, std::pair<Index, Index>{5, 0},
                                     std::pair<Index, Index>{40'000, 33'000}, std::pair<Index, Index>{65'536, 8'192}),
                     testing::Values(QrCut(), QrCut::card())));

TEST(Tree, KeepsWorkersBusyWhereItIsTall) {
  EXPECT_GE(QrTree(4'000'000, 256, Dtype::float64).groups, 64);
  EXPECT_EQ(QrTree(40'000, 33'000, Dtype::float64).groups, 1);
}

}  // namespace
}  // namespace flagstone::linalg
