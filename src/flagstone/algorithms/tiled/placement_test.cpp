#include "flagstone/algorithms/tiled/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "flagstone/base/error.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"

namespace flagstone::linalg {
namespace {

constexpr Index edge = 3;

/// A tile of rows x cols of them, whose last ones are clipped.
Region tile_of(const Array& array, Index i, Index j) {
  const Shape& shape = array.shape();
  return {array, {{i * edge, j * edge}, {std::min(edge, shape[0] - i * edge), std::min(edge, shape[1] - j * edge)}}};
}

TEST(Placement, GoesThroughDevicesFromTheEndAndBack) {
  const Array array = planned_array({20, 19}, Dtype::float64, {edge, edge});
  const Place rows = place_by_name("rows", 2), columns = place_by_name("columns", 3);
  const int two[]{2, 2, 1, 1, 2, 2, 1}, three[]{1, 1, 2, 3, 3, 2, 1};
  for (Index i = 0; i < 7; ++i)
    for (Index j = 0; j < 7; ++j) {
      EXPECT_EQ(rows(tile_of(array, i, j), {i, j}), two[i]) << i;
      EXPECT_EQ(columns(tile_of(array, i, j), {i, j}), three[j]) << j;
    }
  const Array vector = planned_array({20}, Dtype::float64, {edge});
  EXPECT_EQ(columns({vector, {{3}, {edge}}}, {1}), 1) << "a vector's only dimension";
  EXPECT_EQ(columns({}, {}), 1);
}

/// Work of tile (i, j) of a Cholesky factor: j updates and its own step.
TEST(Placement, SharesTrianglesOut) {
  for (const int devices : {2, 3, 4})
    for (Index tiles = 4 * devices; tiles < 40; ++tiles) {
      const Array array = planned_array({tiles * edge, tiles * edge}, Dtype::float64, {edge, edge});
      const Place rows = place_by_name("rows", devices);
      std::vector<double> work(static_cast<std::size_t>(devices));
      for (Index i = 0; i < tiles; ++i)
        for (Index j = 0; j <= i; ++j)
          work[static_cast<std::size_t>(rows(tile_of(array, i, j), {i, j})) - 1] += static_cast<double>(j) + 1;
      const double all = std::accumulate(work.begin(), work.end(), 0.0);
      EXPECT_LE(*std::ranges::max_element(work) * devices / all, 1.10) << devices << " devices, " << tiles << " tiles";
    }
}

TEST(Placement, SaysWhatIsNone) { EXPECT_THROW(place_by_name("diagonals", 2), ShapeError); }

}  // namespace
}  // namespace flagstone::linalg
