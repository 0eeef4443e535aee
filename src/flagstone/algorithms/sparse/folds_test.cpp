#include "flagstone/algorithms/sparse/folds.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::sparse {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A ragged matrix written as ingest writes it, with stored zeros, NaN and infinities; and every stored value.
struct Sample {
  struct Value {
    Index row, column;
    double value;
  };
  TemporaryDirectory directory;
  std::vector<Value> values;
  CsrOperand a;

  Sample(Index m, Index n, Index panel_rows) {
    std::mt19937 random(static_cast<unsigned>(m + n));
    const double specials[] = {0, nan, HUGE_VAL, -HUGE_VAL};
    std::vector<Index> pointers{0}, columns;
    std::vector<double> numbers;
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n; ++j) {
        if (i % 7 == 3 || j % 5 == 2 || random() % 3) continue;
        const double value = random() % 9 == 0 && i % 3 ? specials[random() % 4] : std::ldexp(random() % 99 - 40.0, -2);
        columns.push_back(j), numbers.push_back(value), values.push_back({i, j, value});
      }
      pointers.push_back(static_cast<Index>(columns.size()));
    }
    CsrWriter writer(directory / "matrix", n, Dtype::float64);
    writer.append(m, pointers.data(), columns.data(), numbers.data());
    std::vector<CsrPanelRange> panels;
    for (Index row = 0; row < m; row += panel_rows)
      panels.push_back({row, std::min(m, row + panel_rows), pointers[row], pointers[std::min(m, row + panel_rows)]});
    a = prepare(writer.finish(), panels);
  }

  /// Naively: the fold and the number of stored values of one row or column.
  std::pair<double, double> expected(Fold fold, bool rows, Index which) const {
    double found = fold == Fold::min ? HUGE_VAL : fold == Fold::max ? -HUGE_VAL : 0, stored = 0;
    for (const Value& v : values) {
      if ((rows ? v.row : v.column) != which) continue;
      if (fold == Fold::counts)
        stored = v.value < stored ? v.value : stored;
      else
        stored += fold == Fold::moments ? v.value * v.value : 1;
      if (fold == Fold::sum || fold == Fold::moments || fold == Fold::counts)
        found += v.value;
      else if (fold == Fold::nonzero)
        found += !(v.value == 0);
      else if (std::isnan(v.value) || std::isnan(found))
        found = nan;
      else
        found = fold == Fold::min ? std::min(found, v.value) : std::max(found, v.value);
    }
    return {found, stored};
  }
};

RuntimeOptions options(int workers, std::uint64_t memory) {
  RuntimeOptions options;
  options.workers = workers;
  options.memory = memory;
  return options;
}

TEST(CsrFolds, AreTheNaiveOnesForEveryWorkerCountAndLimit) {
  for (Index panel_rows : {1, 16, 400}) {
    const Index m = 131, n = 23;
    Sample s(m, n, panel_rows);
    for (Fold fold : {Fold::sum, Fold::min, Fold::max, Fold::nonzero, Fold::moments, Fold::counts})
      for (bool rows : {false, true})
        for (int workers : {1, 3}) {
          const Index words = rows && fold == Fold::sum ? 1 : 2;
          std::vector<double> out(static_cast<std::size_t>(rows ? words * m : 2 * n));
          const Shape shape = rows ? Shape{m, words} : Shape{2, n};
          const Array result =
              memory_array(reinterpret_cast<std::byte*>(out.data()), shape, Dtype::float64, {}, nullptr);
          const auto build = [&](Graph& graph) {
            const FoldOptions with{fold, Dtype::float64};
            rows ? fold_rows(graph, s.a, with, result) : fold_columns(graph, s.a, with, result);
            graph.barrier();
          };
          const std::uint64_t least = Runtime(options(workers, GiB)).least_memory(build) + 2 * MiB;
          Runtime runtime(options(workers, workers == 1 ? least : GiB));
          runtime.run(build);
          for (Index i = 0; i < (rows ? m : n); ++i) {
            const auto [value, stored] = s.expected(fold, rows, i);
            const double found = rows ? out[words * i] : out[i], number = rows ? out[words * i + 1] : out[n + i];
            if (fold != Fold::sum) {
              EXPECT_TRUE(same(number, stored)) << i;
            }
            EXPECT_TRUE(found == value || (std::isnan(found) && std::isnan(value)))
                << i << " " << found << " " << value;
          }
        }
  }
}

/// What a panel folds into is joined before the next panel is read: at the least limit too nothing goes to scratch.
TEST(CsrFolds, NeedNoScratch) {
  TemporaryDirectory scratch;
  Sample s(400, 23, 16);
  std::vector<double> out(46);
  const Array result = memory_array(reinterpret_cast<std::byte*>(out.data()), {2, 23}, Dtype::float64, {}, nullptr);
  const auto build = [&](Graph& graph) {
    fold_columns(graph, s.a, {Fold::max, Dtype::float64}, result);
    graph.barrier();
  };
  RuntimeOptions least = options(2, GiB);
  least.scratch = scratch.path(), least.scratch_quota = 0;
  least.memory = Runtime(least).least_memory(build) + 2 * MiB;
  Runtime runtime(least);
  EXPECT_EQ(runtime.run(build).bytes_written, 0u);
}

/// Plain sums of these lose every small value: 1e16 + 1 is 1e16.
TEST(CsrFolds, SumsAreCompensated) {
  constexpr Index m = 60, n = 2;
  TemporaryDirectory directory;
  std::vector<Index> pointers{0}, columns;
  std::vector<double> values;
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) columns.push_back(j);
    values.insert(values.end(), {i % 3 == 0 ? 1e16 : i % 3 == 1 ? 1.0 : -1e16, i == 40 ? HUGE_VAL : 1.0});
    pointers.push_back(static_cast<Index>(columns.size()));
  }
  CsrWriter writer(directory / "tall", n, Dtype::float64);
  writer.append(m, pointers.data(), columns.data(), values.data());
  const CsrMatrix tall = writer.finish();
  CsrWriter other(directory / "wide", 3 * m, Dtype::float64);  // one row: [1e16, 1, -1e16] and so on
  std::vector<Index> along(3 * m);
  std::vector<double> row;
  for (Index j = 0; j < 3 * m; ++j)
    along[static_cast<std::size_t>(j)] = j, row.push_back(j % 3 ? j % 3 == 1 ? 1.0 : -1e16 : 1e16);
  const Index ends[] = {0, 3 * m};
  other.append(1, ends, along.data(), row.data());
  const CsrOperand wide = prepare(other.finish(), {{0, 1, 0, 3 * m}});
  for (const Index panel_rows : {1, 7, 60})
    for (const int workers : {1, 3}) {
      std::vector<CsrPanelRange> panels;
      for (Index r = 0; r < m; r += panel_rows)
        panels.push_back({r, std::min(m, r + panel_rows), 2 * r, 2 * std::min(m, r + panel_rows)});
      const CsrOperand a = prepare(tall, panels);
      std::vector<double> sums(2 * n), single(1);
      Runtime runtime(options(workers, GiB));
      runtime.run([&](Graph& graph) {
        fold_columns(graph, a, {Fold::sum}, memory_array(sums.data(), {2, n}));
        fold_rows(graph, wide, {Fold::sum}, memory_array(single.data(), {1, 1}));
        graph.barrier();
      });
      EXPECT_EQ(sums[0] + sums[2], m / 3) << panel_rows;
      EXPECT_EQ(sums[1], HUGE_VAL);
      EXPECT_EQ(single[0], m);
    }
}

TEST(CsrFolds, SeeTheMatrixThroughItsTransform) {
  Sample s(60, 10, 16);
  Transform transform;
  transform.steps.push_back({Transform::Step::Kind::scale, {-2.0}});
  transform.place = {-1, 0, -1, 1, 2, -1, -1, -1, 3, -1};
  const CsrOperand seen = transformed(s.a, transform);
  std::vector<double> out(8);
  const Array result = memory_array(reinterpret_cast<std::byte*>(out.data()), {2, 4}, Dtype::float64, {}, nullptr);
  Runtime runtime(options(2, GiB));
  runtime.run([&](Graph& graph) {
    fold_columns(graph, seen, {Fold::max, Dtype::float64}, result);
    graph.barrier();
  });
  const Index kept[] = {1, 3, 4, 8};
  for (Index j = 0; j < 4; ++j) {
    const auto [least, stored] = s.expected(Fold::min, false, kept[j]);
    EXPECT_EQ(out[4 + j], stored);
    EXPECT_TRUE(same(out[j], -2 * least));
  }
}

TEST(CsrFolds, AResultOfAnotherShapeIsRefused) {
  Sample s(10, 4, 16);
  std::vector<double> out(8);
  const Array result = memory_array(reinterpret_cast<std::byte*>(out.data()), {4, 2}, Dtype::float64, {}, nullptr);
  Runtime runtime(options(1, GiB));
  EXPECT_THROW(runtime.run([&](Graph& graph) { fold_columns(graph, s.a, {}, result); }), ShapeError);
}

}  // namespace
}  // namespace flagstone::sparse
