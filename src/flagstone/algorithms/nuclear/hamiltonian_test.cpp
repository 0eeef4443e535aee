#include "flagstone/algorithms/nuclear/hamiltonian.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "flagstone/algorithms/nuclear/row_by_row.hpp"

namespace flagstone::nuclear {
namespace {

struct Case {
  int protons, neutrons, nmax, two_m;
};

class Hamiltonians : public testing::TestWithParam<Case> {};

/// Entry by entry: what pairs of groups make is what rows make through a hash, and as many.
TEST_P(Hamiltonians, AreThoseOfRows) {
  const auto [protons, neutrons, nmax, two_m] = GetParam();
  const auto orbits = oscillator_orbits(nmax + 1);
  const auto space = std::make_shared<Space>(orbits, orbits, protons, neutrons, nmax);
  const auto basis = std::make_shared<Basis>(space, two_m);
  const auto interaction = std::make_shared<Interaction>(Interaction::random(7));
  const auto h = std::make_shared<Hamiltonian>(basis, interaction);
  RowByRow rows(*basis, *interaction);
  ASSERT_EQ(rows.rows(), basis->dimension());
  BlockMaker maker(h);
  kernel::SparseBlock block;
  std::vector<std::int32_t> js;
  const std::vector<bool> all(static_cast<std::size_t>(basis->groups()), true);
  std::vector<std::map<Index, double>> made(static_cast<std::size_t>(basis->dimension()));
  for (Index i = 0; i < basis->groups(); ++i) {
    h->coupling().of(i, all, js);
    for (const std::int32_t j : js) {
      maker.make(i, j, block);
      for (Index r = 0; r < block.rows; ++r)
        for (auto k = static_cast<std::size_t>(block.starts[static_cast<std::size_t>(r)]);
             k < static_cast<std::size_t>(block.starts[static_cast<std::size_t>(r) + 1]); ++k)
          made[static_cast<std::size_t>(basis->first(i) + r)][basis->first(j) + block.columns[k]] = block.values[k];
    }
  }
  double largest = 0, off = 0;
  RowByRow::Row row;
  for (Index r = 0; r < rows.rows(); ++r) {
    rows.row(r, row);
    auto& mine = made[static_cast<std::size_t>(r)];
    for (const auto& [column, value] : row) {
      if (column > r && !mine.contains(column)) continue;  // above the diagonal only blocks of it are made
      largest = std::max(largest, std::abs(value)), off = std::max(off, std::abs(value - mine[column]));
      mine.erase(column);
    }
    for (const auto& [column, value] : mine) off = std::max(off, std::abs(value));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LE(off, 1e-13 * largest);
}

INSTANTIATE_TEST_SUITE_P(Spaces, Hamiltonians,
                         testing::Values(Case{2, 2, 2, 0}, Case{1, 2, 2, 1}, Case{0, 3, 3, 3}, Case{3, 3, 1, 2}));

}  // namespace
}  // namespace flagstone::nuclear
