#include "flagstone/runtime/graph/distribution.hpp"

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

TEST(Distribution, IsAFunctionOfATilesPlace) {
  const auto matrix = Distribution::block_cyclic({64, 64}, 2, 3);
  EXPECT_EQ(matrix.owner({0, 0}), 0);
  EXPECT_EQ(matrix.owner({1, 2}), 5);
  EXPECT_EQ(matrix.owner({2, 3}), 0);
  EXPECT_EQ(matrix.owner({7, 1, 2}), 5);  // of a stack its matrices lie alike
  EXPECT_FALSE(matrix.place);
  const auto tall = Distribution::rows({1000, 8}, {100, 8}, 3);  // 10 tiles: 4, 4, 2
  std::vector<int> owners;
  for (Index i = 0; i < 10; ++i) owners.push_back(tall.owner({i, 0}));
  EXPECT_EQ(owners, (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2}));
  EXPECT_EQ(Distribution::cyclic({64, 64}, 3, 1).owner({5, 4}), 1);
  EXPECT_EQ(Distribution::one({64}, 2).owner({9}), 2);
}

TEST(Distribution, SaysWhatDoesNotFit) {
  check_distribution({10, 10}, Distribution::one({4, 4}, 0));
  EXPECT_THROW(check_distribution({10, 10}, Distribution::one({4}, 0)), ShapeError);
  EXPECT_THROW(check_distribution({10}, Distribution::one({0}, 0)), ShapeError);
  EXPECT_THROW(check_distribution({10}, {{4}, {}, {}}), ShapeError);
  EXPECT_THROW(Distribution::block_cyclic({4, 4}, 0, 1), ShapeError);
}

}  // namespace
}  // namespace flagstone
