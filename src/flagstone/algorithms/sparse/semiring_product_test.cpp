// Products over semirings of matrices that stream: panels, accumulators, chosen rows.
#include "flagstone/algorithms/sparse/semiring_product.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/element_type.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/reference/semiring.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::sparse {
namespace {

namespace reference = kernel::reference;

template <class T>
Array array_of(std::vector<T>& elements, const Shape& shape) {
  return memory_array(elements.data(), shape);
}

/// Integers in panels of 16 rows; rows 32 to 47 are empty.
struct Sample {
  static constexpr Index rows = 150, cols = 40;
  std::vector<Index> pointers{0};
  std::vector<std::int32_t> columns, values;
  CsrOperand a;

  Sample() {
    std::mt19937 random(3);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols && (i < 32 || i > 47); ++j)
        if (random() % 5 == 0) columns.push_back(static_cast<std::int32_t>(j)), values.push_back(random() % 9 - 4);
      pointers.push_back(static_cast<Index>(columns.size()));
    }
    CsrMatrix matrix{.rows = rows, .cols = cols, .nnz = pointers.back(), .path = "sample"};
    matrix.data = array_of(values, {matrix.nnz});
    matrix.indices = array_of(columns, {matrix.nnz});
    matrix.indptr = array_of(pointers, {rows + 1});
    std::vector<CsrPanelRange> panels;
    for (Index row = 0; row < rows; row += 16)
      panels.push_back({row, std::min(row + 16, rows), pointers[row], pointers[std::min(row + 16, rows)]});
    a = prepare(matrix, std::move(panels));
  }
};

struct Result {
  std::vector<std::int64_t> y;
  std::vector<std::uint8_t> found;
  bool operator==(const Result&) const = default;
};

constexpr Index width = 2;

Result product(const CsrOperand& a, Semiring semiring, bool transposed, std::vector<std::int64_t> x,
               std::vector<std::uint8_t> there, int workers) {
  const Index from = transposed ? a.matrix.rows : a.matrix.cols, to = transposed ? a.matrix.cols : a.matrix.rows;
  Result made{std::vector<std::int64_t>(static_cast<std::size_t>(to * width)),
              std::vector<std::uint8_t>(static_cast<std::size_t>(to * width))};
  const SemiringProduct asked{.semiring = semiring,
                              .transposed = transposed,
                              .x = {array_of(x, {from, width})},
                              .there = array_of(there, {from, width}),
                              .y = {array_of(made.y, {to, width})},
                              .found = array_of(made.found, {to, width})};
  Runtime runtime({.memory = 4 * GiB, .workers = workers});
  runtime.run([&](Graph& graph) {
    semiring_product(graph, a, asked);
    graph.barrier();
  });
  return made;
}

TEST(SemiringProduct, PanelsAddUpToTheDefinition) {
  const Sample s;
  std::mt19937 random(8);
  for (const Semiring semiring : {Semiring::plus_times, Semiring::min_plus, Semiring::max_times, Semiring::min_second})
    for (const bool transposed : {false, true})
      for (const bool some : {false, true}) {
        std::vector<Index> rows;
        for (Index i = 0; i < s.rows; ++i)
          if (!some || i % 7 == 2 || (i > 80 && i < 90)) rows.push_back(i);
        const CsrOperand a = some ? touched(chosen(s.a, RowChoice(rows))) : s.a;
        const Index seen = static_cast<Index>(rows.size()), from = transposed ? seen : s.cols;
        const Index to = transposed ? s.cols : seen;
        std::vector<std::int64_t> x(static_cast<std::size_t>(from * width));
        std::vector<std::uint8_t> there(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = random() % 11 - 5, there[i] = random() % 3 != 0;
        std::vector<std::vector<std::int64_t>> terms(static_cast<std::size_t>(to * width));
        for (Index i = 0; i < seen; ++i)
          for (Index p = s.pointers[rows[i]]; p < s.pointers[rows[i] + 1]; ++p)
            for (Index k = 0; k < width; ++k) {
              const auto source = static_cast<std::size_t>((transposed ? i : s.columns[p]) * width + k);
              const auto target = static_cast<std::size_t>((transposed ? s.columns[p] : i) * width + k);
              if (there[source])
                terms[target].push_back(reference::semiring_times<std::int64_t>(semiring, s.values[p], x[source]));
            }
        const Result found = product(a, semiring, transposed, x, there, 1);
        EXPECT_EQ(found, product(a, semiring, transposed, x, there, 3));
        for (std::size_t i = 0; i < terms.size(); ++i) {
          const auto sum = reference::semiring_sum(semiring, terms[i]);
          EXPECT_EQ(found.found[i], sum.has_value());
          if (sum) {
            EXPECT_EQ(found.y[i], *sum) << name_of(semiring) << " " << transposed << " " << i;
          }
        }
      }
}

TEST(SemiringProduct, ChosenRowsLeaveOutWhatLiesBetween) {
  const Sample s;
  const std::vector<Index> rows{2, 3, 60};
  const CsrOperand some = touched(chosen(s.a, RowChoice(rows)));
  ASSERT_EQ(some.panels.size(), 2u);  // of ten
  EXPECT_EQ(some.panels[0].first, s.pointers[2]);
  EXPECT_EQ(some.panels[0].last, s.pointers[4]);
  EXPECT_EQ(some.panels[1].row, 60);
  EXPECT_EQ(some.panels[1].last, s.pointers[61]);
}

TEST(SemiringProduct, MasksSayWhatOfAnOldYStays) {
  const Sample s;
  std::vector<std::int64_t> x(s.cols, 3), old(s.rows), wanted(s.rows), y(s.rows), all(s.rows);
  std::vector<std::uint8_t> mask(s.rows);
  std::vector<Index> rows;
  for (Index i = 0; i < s.rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    old[at] = i - 70, mask[at] = i % 9 == 4 || i > 140;
    if (mask[at]) rows.push_back(i);
    wanted[at] = old[at];
    for (Index p = s.pointers[i]; mask[at] && p < s.pointers[i + 1]; ++p)
      wanted[at] = std::min<std::int64_t>(wanted[at], s.values[p] + 3);
  }
  Finish finish{.old = array_of(old, {s.rows, 1})};
  finish.mask = {memory_array(reinterpret_cast<std::byte*>(mask.data()), {s.rows}, Dtype::boolean, {1})};
  Runtime runtime({.memory = 4 * GiB, .workers = 2});
  for (const bool compact : {false, true}) {
    finish.compact = compact;
    runtime.run([&](Graph& graph) {
      semiring_product(graph, compact ? touched(chosen(s.a, RowChoice(rows))) : s.a,
                       {.semiring = Semiring::min_plus,
                        .x = {array_of(x, {s.cols, 1})},
                        .y = {array_of(y, {s.rows, 1})},
                        .finish = finish});
      graph.barrier();
    });
    EXPECT_EQ(y, wanted) << compact;
  }
}

TEST(SemiringProduct, VectorsThatDoNotFitAreRefused) {
  Sample s;
  std::vector<double> x(40), y(149);
  Runtime runtime({.memory = 4 * GiB, .workers = 1});
  EXPECT_THROW(runtime.run([&](Graph& graph) {
    semiring_product(graph, s.a,
                     {.semiring = Semiring::min_plus, .x = {array_of(x, {40, 1})}, .y = {array_of(y, {149, 1})}});
  }),
               ShapeError);
}

}  // namespace
}  // namespace flagstone::sparse
