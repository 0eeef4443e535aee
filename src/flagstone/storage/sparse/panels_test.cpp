#include "flagstone/storage/sparse/panels.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "flagstone/testing/csr_rows.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::append_in_blocks;
using test::canonical;
using test::random_rows;
using test::Rows;

TEST(Csr, StatisticsAreThoseOfTheMatrix) {
  std::mt19937_64 random(12);
  TemporaryDirectory directory;
  const auto given = random_rows<double>(300, 20, 9, false, random);
  const auto rows = canonical(given);
  CsrWriter writer(directory / "g", -1, Dtype::float64);  // columns not known: the widest row says
  append_in_blocks(writer, given, 100);
  const CsrMatrix matrix = writer.finish();
  EXPECT_EQ(matrix.cols, 20);
  const auto statistics = csr_statistics(open_csr(directory / "g"));
  ASSERT_TRUE(statistics);
  std::vector<double> sums(20), squares(20);
  double pairs = 0, all = 0;
  for (std::size_t i = 0; i + 1 < rows.pointers.size(); ++i)
    pairs += std::pow(static_cast<double>(rows.pointers[i + 1] - rows.pointers[i]), 2);
  for (std::size_t p = 0; p < rows.values.size(); ++p) {
    sums[static_cast<std::size_t>(rows.columns[p])] += rows.values[p];
    squares[static_cast<std::size_t>(rows.columns[p])] += rows.values[p] * rows.values[p];
    all += rows.values[p] * rows.values[p];
  }
  EXPECT_EQ(statistics->column_sums, sums);
  EXPECT_EQ(statistics->column_squares, squares);
  EXPECT_EQ(statistics->sum_squares, all);
  EXPECT_EQ(statistics->sum_row_nnz_squared, pairs);
  EXPECT_EQ(statistics->bad_row, -1);
}

TEST(Csr, TheFirstNanOrInfinityIsRemembered) {
  TemporaryDirectory directory;
  CsrWriter writer(directory / "g", 5, Dtype::float32);
  Rows<float> rows;
  rows.add({{0, 1.f}});
  rows.add({});
  rows.add({{1, 1.f}, {3, std::numeric_limits<float>::infinity()}, {4, NAN}});
  rows.add({{2, NAN}});
  append_in_blocks(writer, rows, 4);
  writer.finish();
  const auto statistics = csr_statistics(open_csr(directory / "g"));
  EXPECT_EQ(statistics->bad_row, 2);
  EXPECT_EQ(statistics->bad_column, 3);
}

TEST(Csr, SumsOfManyChunksAreAddedInOrder) {
  const Index chunk = Index{1} << 19, n = 700, rows = 4 * chunk / n + 1;  // rows that cross chunks
  for (const bool narrow : {false, true}) {
    SCOPED_TRACE(narrow);
    TemporaryDirectory directory;
    CsrWriter writer(directory / "g", -1, Dtype::float32, narrow);
    std::vector<double> sums(static_cast<std::size_t>(n));
    std::vector<float> values(sums.size());
    std::vector<std::int32_t> columns(sums.size());
    const Index pointers[] = {0, n};
    for (Index i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < values.size(); ++j) {
        columns[j] = static_cast<std::int32_t>(j);
        values[j] =
            narrow ? static_cast<float>((static_cast<std::size_t>(i) + j) % 9) : 1.f / static_cast<float>(i + 3);
        if (i == rows - 2 && j == 5 && !narrow) values[j] = INFINITY;
        sums[j] += static_cast<double>(values[j]);
      }
      writer.append(1, pointers, columns.data(), values.data());
    }
    const CsrMatrix matrix = writer.finish();
    const auto statistics = csr_statistics(matrix);
    ASSERT_TRUE(statistics);
    EXPECT_EQ(statistics->column_sums, sums);  // the same additions in the same order
    EXPECT_EQ(statistics->bad_row, narrow ? -1 : rows - 2);
    EXPECT_EQ(statistics->bad_column, narrow ? -1 : 5);
    EXPECT_EQ(matrix.nnz, rows * n);
    EXPECT_EQ(read_integers(matrix.indices, matrix.nnz - 2, 2), (std::vector<Index>{n - 2, n - 1}));
  }
}

/// Rows of two values, one of them in a column that nobody expects, until more than a chunk is full.
struct Wide {
  Index rows = (Index{1} << 18) + 7, far = Index{1} << 31;

  void append(CsrWriter& writer, Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const Index pointers[] = {0, 2};
      const Index columns[] = {i % 5, i < rows - 3 ? 5 : far};
      const double values[] = {static_cast<double>(i % 7), i == rows - 2 ? std::nan("") : 0.5};
      writer.append(1, pointers, columns, values);
    }
  }
  double expected() const {
    double sum = 0;
    for (Index i = 0; i < rows - 2; ++i) sum += static_cast<double>((i % 7) * (i % 7)) + 0.25;
    return sum;
  }
};

TEST(Csr, ColumnsAreNotCountedWhereThereAreTooMany) {
  for (const Index cols : {Index{-1}, Index{1} << 40}) {  // learned in the last chunk; known before
    SCOPED_TRACE(cols);
    TemporaryDirectory directory;
    Wide wide;
    CsrWriter writer(directory / "g", cols, Dtype::float64);
    wide.append(writer, 0, wide.rows - 2);
    const std::vector<std::byte> state = writer.state();
    EXPECT_LT(state.size(), std::size_t{64} << 20);
    CsrWriter later(directory / "g", cols, Dtype::float64, state);
    wide.append(later, wide.rows - 2, wide.rows);
    const CsrMatrix matrix = later.finish();
    EXPECT_EQ(matrix.cols, cols < 0 ? wide.far + 1 : cols);
    const auto statistics = csr_statistics(open_csr(directory / "g"));
    ASSERT_TRUE(statistics);
    EXPECT_TRUE(statistics->column_sums.empty());
    EXPECT_EQ(statistics->sum_row_nnz_squared, 4.0 * static_cast<double>(wide.rows));
    EXPECT_EQ(statistics->bad_row, wide.rows - 2);
    EXPECT_EQ(statistics->bad_column, wide.far);
  }
}

TEST(Csr, SquaresOfColumnsThatAreNotCountedAreAddedUp) {
  TemporaryDirectory directory;
  Wide wide;
  CsrWriter writer(directory / "g", most_counted_columns + 1, Dtype::float64);
  wide.append(writer, 0, wide.rows - 3);
  writer.finish();
  wide.rows -= 1;
  const auto statistics = csr_statistics(open_csr(directory / "g"));
  EXPECT_EQ(statistics->sum_squares, wide.expected());  // quarters and integers: exact
  EXPECT_EQ(statistics->bad_row, -1);
  EXPECT_EQ(statistics->column_squares.size(), 0u);
}

TEST(Csr, AllCountedColumnsAreCounted) {
  TemporaryDirectory directory;
  Rows<float> rows;
  rows.add({{0, 2.f}, {most_counted_columns - 1, 3.f}});
  CsrWriter writer(directory / "g", -1, Dtype::float32);
  append_in_blocks(writer, rows, 1);
  writer.finish();
  const auto statistics = csr_statistics(open_csr(directory / "g"));
  ASSERT_TRUE(statistics);
  ASSERT_EQ(statistics->column_sums.size(), static_cast<std::size_t>(most_counted_columns));
  EXPECT_EQ(statistics->column_sums.back(), 3);
  EXPECT_EQ(statistics->sum_squares, 13);
}

TEST(Csr, StatisticsOfChangedArraysAreUnknownNotWrong) {
  TemporaryDirectory directory;
  CsrWriter writer(directory / "g", 5, Dtype::float32);
  Rows<float> rows;
  rows.add({{0, 1.f}});
  append_in_blocks(writer, rows, 1);
  writer.finish();
  const CsrMatrix held = open_csr(directory / "g");
  ASSERT_TRUE(csr_statistics(held));
  const std::string file = directory / "g/data/__flagstone/statistics.bin";
  const auto time = std::filesystem::last_write_time(file);
  std::fstream(file, std::ios::in | std::ios::out).put('x');  // damaged, with its old time
  std::filesystem::last_write_time(file, time);
  EXPECT_FALSE(csr_statistics(open_csr(directory / "g")));
  const CsrMatrix copy = held;
  EXPECT_TRUE(csr_statistics(copy)) << "it was read once, and its file is what it was";
  std::filesystem::last_write_time(directory / "g/data/c/0", std::filesystem::file_time_type::clock::now());
  EXPECT_FALSE(csr_statistics(held));
  EXPECT_FALSE(csr_statistics(open_csr(directory / "g")));
  EXPECT_EQ(csr_panels(open_csr(directory / "g")).size(), 1u);
}

}  // namespace
}  // namespace flagstone
