#include "flagstone/algorithms/tiled/placement.hpp"

#include "flagstone/base/error.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::linalg {
namespace {

TEST(Placement, IsAFunctionOfATilesPlace) {
  const Region any;
  const Place rows = place_by_name("rows", 2), columns = place_by_name("columns", 3);
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j < 5; ++j) {
      EXPECT_EQ(rows(any, {i, j}), 1 + i % 2);
      EXPECT_EQ(columns(any, {i, j}), 1 + j % 3);
    }
  EXPECT_EQ(columns(any, {4}), 2);  // a vector's only dimension
  const Place grid = place_by_pattern({{1, 2, 0}, {2, 1, 1}}, 2);
  EXPECT_EQ(grid(any, {2, 4}), 2);
  EXPECT_EQ(grid(any, {1, 3}), 2);
  EXPECT_EQ(grid(any, {9, 3, 2}), 1);
  EXPECT_EQ(grid(any, {2}), 0);
  EXPECT_EQ(grid(any, {}), 1);
}

TEST(Placement, SaysWhatIsNone) {
  EXPECT_THROW(place_by_name("diagonals", 2), ShapeError);
  EXPECT_THROW(place_by_pattern({}, 2), ShapeError);
  EXPECT_THROW(place_by_pattern({{1, 2}, {1}}, 2), ShapeError);
  EXPECT_THROW(place_by_pattern({{3}}, 2), ShapeError);
  EXPECT_THROW(place_by_pattern({{-1}}, 2), ShapeError);
}

}  // namespace
}  // namespace flagstone::linalg
