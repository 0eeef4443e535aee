#include "flagstone/algorithms/sparse/row_choice.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/algorithms/sparse/folds.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/testing/csr_sample.hpp"

namespace flagstone::sparse {
namespace {

using namespace test;

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

TEST(RowChoice, PanelsWithoutAChosenRowAreNotRead) {
  Sample s(3000, 90, {Storage::raw, Dtype::float32, Dtype::int32, Dtype::int64, 64});
  const CsrOperand some = chosen(s.a, RowChoice(640, 700));  // the second panel of twenty is whole, the third partly
  EXPECT_EQ(some.panels.size(), 1u);
  const CsrPanelRange panel = some.panels[0];
  Held x(90, 4, Dtype::float32, 9), y(60, 4, Dtype::float32, 0);
  const auto build = [&](Graph& graph) { multiply(graph, some, x.array, nullptr, y.array), graph.barrier(); };
  Runtime runtime(options());
  const Statistics planned = runtime.plan(build), done = runtime.run(build);
  EXPECT_EQ(planned.bytes_read, done.bytes_read);
  // Values, columns and pointers of the panel, by whole chunks of 64 elements, each of which is a page.
  const auto values = static_cast<std::uint64_t>(panel.last - panel.first);
  EXPECT_LE(done.bytes_read, (2 * (values / 64 + 2) + 3) * page_bytes);
  EXPECT_GE(done.bytes_read, 2 * (values / 64) * page_bytes);
  EXPECT_EQ(some.matrix.nnz, static_cast<Index>(std::llround(static_cast<double>(values) * 60 / 64)));
  EXPECT_THROW(chosen(s.a, RowChoice(2999, 3001)), ShapeError);
  EXPECT_THROW(chosen(some, RowChoice(0, 1)), ShapeError);
}

TEST(RowChoice, TransformsOfChosenRowsTakeFactorsOfThese) {
  for (const Kind& kind : {kinds[0], kinds[4]})
    for (const std::vector<Index>& rows : row_choices(300)) {
      Sample s(300, 40, kind);
      s.choose(rows);
      Transform transform;
      std::vector<double> factors;
      for (Index i = 0; i < s.rows; ++i) factors.push_back(static_cast<double>(1 + i % 5));
      transform.steps.push_back({Transform::Step::Kind::rows, factors});
      Index stay = 0;
      for (Index j = 0; j < 40; ++j) transform.place.push_back(j % 3 ? stay++ : -1);
      const CsrOperand a = transformed(s.a, transform);
      Held sums(s.rows, 1, Dtype::float64, 0), columns(2, stay, Dtype::float64, 0);
      Runtime runtime(options());
      runtime.run([&](Graph& graph) {
        fold_rows(graph, a, {Fold::sum, Dtype::float64}, sums.array);
        fold_columns(graph, a, {Fold::moments, Dtype::float64}, columns.array);
      });
      std::vector<double> along_rows(factors.size()), along_columns(static_cast<std::size_t>(stay));
      for (Index i = 0; i < s.rows; ++i)
        for (Index p = s.pointers[i]; p < s.pointers[i + 1]; ++p)
          if (const Index place = transform.place[s.columns[p]]; place >= 0)
            along_rows[i] += factors[i] * s.values[p], along_columns[place] += factors[i] * s.values[p];
      EXPECT_EQ(sums.wide, along_rows);
      EXPECT_EQ(std::vector<double>(columns.wide.begin(), columns.wide.begin() + stay), along_columns);
    }
}

}  // namespace
}  // namespace flagstone::sparse
