#include "flagstone/algorithms/nuclear/nonzeros.hpp"

#include <gtest/gtest.h>

#include <set>

namespace flagstone::nuclear {
namespace {

using Row = std::set<std::array<int, 3>>;  // species, orbit, state

/// All determinants of a space, one by one.
std::vector<Row> rows_of(const Basis& basis) {
  std::vector<Row> rows;
  for (Index g = 0; g < basis.groups(); ++g) {
    const Configuration* c[2] = {&basis.protons(g), &basis.neutrons(g)};
    const Determinants* d[2] = {&basis.determinants(*c[0], false), &basis.determinants(*c[1], true)};
    for (Index p = 0; p < d[0]->count(); ++p)
      for (const std::int32_t n : d[1]->sector(basis.two_m() - d[0]->two_m(p))) {
        Row row;
        for (int s = 0; s < 2; ++s)
          for (const Occupied& o : c[s]->orbits)
            for (int i = 0; i < 64; ++i) {
              const Orbit& orbit =
                  (s ? basis.space().neutrons() : basis.space().protons()).orbits[static_cast<std::size_t>(o.orbit)];
              if (i >= orbit.states()) break;
              if (o.slot < 0 || (d[s]->mask(s ? n : p, static_cast<std::size_t>(o.slot)) >> i & 1))
                row.insert({s, o.orbit, i});
            }
        rows.push_back(std::move(row));
      }
  }
  return rows;
}

Index pairs_of(const std::vector<Row>& rows) {
  Index pairs = 0;
  for (std::size_t a = 0; a < rows.size(); ++a)
    for (std::size_t b = 0; b <= a; ++b) {
      std::size_t apart = 0;
      for (const auto& state : rows[a]) apart += !rows[b].contains(state);
      pairs += apart <= 2;
    }
  return pairs;
}

struct Case {
  int protons, neutrons, nmax, two_m;
};

class Nonzeros : public ::testing::TestWithParam<Case> {};

TEST_P(Nonzeros, AreThePairsOfRowsThatDifferByTwo) {
  const auto [protons, neutrons, nmax, two_m] = GetParam();
  const std::vector<Orbit> orbits = oscillator_orbits(nmax + 1);
  const auto space = std::make_shared<const Space>(orbits, orbits, protons, neutrons, nmax);
  const std::vector<Row> rows = rows_of(Basis(space, two_m));
  EXPECT_EQ(nonzeros(*space, two_m), static_cast<double>(pairs_of(rows)));
}

INSTANTIATE_TEST_SUITE_P(Spaces, Nonzeros,
                         ::testing::Values(Case{2, 2, 2, 0}, Case{3, 3, 1, 2}, Case{0, 3, 3, 1}, Case{1, 0, 2, 1},
                                           Case{2, 2, 0, 8}, Case{8, 1, 1, 1}));

TEST(Nonzeros, OfRowsEvenlyChosenAreNear) {
  const std::vector<Orbit> orbits = oscillator_orbits(5);
  const Space space(orbits, orbits, 3, 3, 4);
  const double exact = nonzeros(space, 2);
  EXPECT_NE(nonzeros(space, 2, 4000), exact);
  EXPECT_NEAR(nonzeros(space, 2, 4000), exact, 0.01 * exact);
}

}  // namespace
}  // namespace flagstone::nuclear
