#include "flagstone/algorithms/sparse/row_choice.hpp"

#include <gtest/gtest.h>

#include <random>

#include "flagstone/base/error.hpp"

namespace flagstone::sparse {
namespace {

std::vector<Index> listed(const RowChoice& choice, Index row, Index row_end) {
  std::vector<Index> found(static_cast<std::size_t>(choice.count_in(row, row_end)));
  choice.list(row, row_end, found.data());
  for (Index& at : found) at += row;
  return found;
}

TEST(RowChoice, AnswersAsAListWould) {
  std::mt19937_64 random(1);
  for (const double share : {0.001, 0.3, 0.97}) {
    std::vector<Index> rows;
    for (Index row = 0; row < 5000; ++row)
      if (std::uniform_real_distribution<double>()(random) < share && row > 700) rows.push_back(row);
    const RowChoice choice(rows);
    EXPECT_EQ(choice.count(), static_cast<Index>(rows.size()));
    for (const Index row : {0, 1, 63, 64, 700, 703, 704, 1211, 1215, 1216, 4096, 4999, 5000, 6000})
      EXPECT_EQ(choice.before(row), std::ranges::lower_bound(rows, row) - rows.begin()) << row;
    for (const auto& [from, to] : {std::pair<Index, Index>{0, 5000}, {0, 700}, {690, 710}, {1024, 2048}, {4990, 9000}})
      EXPECT_EQ(listed(choice, from, to),
                std::vector<Index>(std::ranges::lower_bound(rows, from), std::ranges::lower_bound(rows, to)));
  }
}

TEST(RowChoice, OfAStretchNeedsNoBits) {
  const RowChoice choice(10, 14);
  EXPECT_EQ(choice.count(), 4);
  EXPECT_EQ(choice.before(3), 0);
  EXPECT_EQ(choice.before(12), 2);
  EXPECT_EQ(choice.before(99), 4);
  EXPECT_EQ(listed(choice, 0, 12), (std::vector<Index>{10, 11}));
  EXPECT_EQ(listed(choice, 13, 40), (std::vector<Index>{13}));
  EXPECT_EQ(listed(choice, 20, 40), std::vector<Index>());
}

TEST(RowChoice, OfNothingIsEmpty) {
  const RowChoice choice(std::span<const Index>{});
  EXPECT_EQ(choice.count(), 0);
  EXPECT_EQ(choice.count_in(0, 100), 0);
}

TEST(RowChoice, OtherOrdersAndRepeatsAreRefused) {
  for (const std::vector<Index>& rows : {std::vector<Index>{3, 2}, {2, 2}, {-1, 4}})
    EXPECT_THROW(RowChoice{std::span<const Index>(rows)}, ShapeError);
  EXPECT_THROW(RowChoice(4, 3), ShapeError);
  EXPECT_THROW(RowChoice(-1, 3), ShapeError);
}

}  // namespace
}  // namespace flagstone::sparse
