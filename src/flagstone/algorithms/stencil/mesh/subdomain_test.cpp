#include "flagstone/algorithms/stencil/mesh/subdomain.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "flagstone/base/error.hpp"

namespace flagstone::stencil {
namespace {

kernel::Space space_of(const Axes& shape, const Axes& radius, std::array<bool, 3> periodic = {}) {
  kernel::Space space;
  space.shape = shape, space.radius = radius;
  for (std::size_t d = 0; d < 3; ++d)
    if (periodic[d]) space.edges[d][0].edge = space.edges[d][1].edge = kernel::Edge::periodic;
  return space;
}

TEST(Subdomain, CoresCoverTheFieldOnce) {
  const kernel::Space space = space_of({13, 11, 5}, {1, 1, 1});
  std::vector<int> seen(13 * 11 * 5);
  for (Index rank = 0; rank < 6; ++rank) {
    const Range3 core = Subdomain(space, {3, 2, 1}, rank, 2).core();
    for (Index z = core.first[0]; z < core.last[0]; ++z)
      for (Index y = core.first[1]; y < core.last[1]; ++y)
        for (Index x = core.first[2]; x < core.last[2]; ++x) ++seen[static_cast<std::size_t>((z * 11 + y) * 5 + x)];
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

/// In two phases everything around a core arrives, from whoever has it by then.
TEST(Subdomain, SleevesComeFromNeighboursInTwoPhases) {
  for (const bool periodic : {false, true}) {
    const kernel::Space space = space_of({12, 14, 5}, {1, 2, 1}, {periodic, false, true});
    const Axes mesh{3, 2, 1};
    for (Index rank = 0; rank < 6; ++rank) {
      const Subdomain part(space, mesh, rank, 3);
      Index points = part.core().count();
      for (std::size_t d = 0; d < 2; ++d)
        for (const bool high : {false, true}) {
          if (!part.sleeve(d, high)) continue;
          const Range3 got = part.received(d, high, 3);
          points += got.count();
          EXPECT_EQ(kernel::intersect(got, part.buffer()), got);
          EXPECT_TRUE(kernel::intersect(got, part.core()).empty());
          const Subdomain from(space, mesh, part.neighbour(d, high), 3);
          const Range3 there = kernel::moved(got, part.shift(d, high));
          Range3 known = from.core();  // and along earlier axes what came in earlier phases
          for (std::size_t e = 0; e < d; ++e)
            known.first[e] = from.buffer().first[e], known.last[e] = from.buffer().last[e];
          EXPECT_EQ(kernel::intersect(there, known), there) << rank << ' ' << d << ' ' << high;
        }
      EXPECT_EQ(points, part.buffer().count());
      EXPECT_EQ(part.sleeve(2, false), false) << "one rank: the axis is not cut";
      EXPECT_EQ(part.sleeve(0, false), periodic || rank >= 2);
    }
  }
}

TEST(Subdomain, ElementsAreThoseOfTheFormula) {
  // h = 2, two steps, 2 x 2 ranks of 10 x 8 x 5: each has one side along z, then one along y.
  EXPECT_EQ(sleeve_elements(space_of({20, 16, 5}, {2, 2, 2}), {2, 2, 1}, 2), 4 * (4 * 8 * 5 + 4 * (10 + 4) * 5));
  // The paper's, where no side is an edge: 2 h t n_y/P_y n_x + 2 h t (n_z/P_z + 2 h t) n_x.
  EXPECT_EQ(sleeve_elements(space_of({20, 16, 5}, {2, 2, 2}, {true, true}), {2, 2, 1}, 2),
            4 * (8 * 8 * 5 + 8 * (10 + 8) * 5));
  EXPECT_EQ(sleeve_elements(space_of({20, 16, 5}, {2, 2, 2}), {1, 1, 1}, 2), 0);
}

TEST(Subdomain, SleevesWiderThanACoreAreRefused) {
  Problem problem;
  problem.axes = axes_of(3), problem.space = space_of({20, 24, 7}, {2, 2, 2});
  const Mesh mesh = mesh_of(problem, {2, 3});
  EXPECT_EQ(mesh, (Mesh{2, 3, 1}));
  EXPECT_EQ(deepest_of(problem.space, mesh), 4);  // 24 / 3 rows
  EXPECT_NO_THROW(check_depth(problem, mesh, 4));
  try {
    check_depth(problem, mesh, 6);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("give depth 4 or less, or mesh 1 x 2 or smaller"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(mesh_of(problem, {21, 1}), ShapeError);
  EXPECT_THROW(mesh_of(problem, {0, 1}), ShapeError);
  problem.axes = axes_of(1);
  EXPECT_THROW(mesh_of(problem, {2, 1}), ShapeError);
}

}  // namespace
}  // namespace flagstone::stencil
