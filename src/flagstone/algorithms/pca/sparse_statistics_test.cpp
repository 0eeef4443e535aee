#include "flagstone/algorithms/pca/sparse_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/sparse/csr.hpp"

namespace flagstone::spectral {
namespace {

template <class T>
Array held(std::vector<T>& numbers, Dtype dtype) {
  return memory_array(reinterpret_cast<std::byte*>(numbers.data()), {static_cast<Index>(numbers.size())}, dtype, {});
}

/// 57 x 19 with empty rows, in panels of 10 rows; integers, so that every sum is exact.
struct Sample {
  static constexpr Index m = 57, n = 19;
  std::vector<Index> pointers{0};
  std::vector<std::int32_t> columns;
  std::vector<double> values;
  std::vector<Index> row_of;

  Sample() {
    for (Index i = 0; i < m; ++i) {
      for (Index j = i % 5; i % 7 != 3 && j < n; j += 1 + i % 4) {
        columns.push_back(static_cast<std::int32_t>(j)),
            values.push_back(static_cast<double>((i * 31 + j * 17) % 23) - 9);
        row_of.push_back(i);
      }
      pointers.push_back(static_cast<Index>(columns.size()));
    }
  }
  sparse::CsrOperand operand() {
    CsrMatrix matrix{m, n, static_cast<Index>(values.size()), {}, {}, {}, "sample", 0};
    matrix.data = held(values, Dtype::float64);
    matrix.indices = held(columns, Dtype::int32);
    matrix.indptr = held(pointers, Dtype::int64);
    std::vector<CsrPanelRange> panels;
    for (Index row = 0; row < m; row += 10) {
      const Index end = std::min<Index>(m, row + 10);
      panels.push_back({row, end, pointers[static_cast<std::size_t>(row)], pointers[static_cast<std::size_t>(end)]});
    }
    return sparse::prepare(matrix, panels);
  }
};

TEST(SparseStatistics, TheKernelComputesWhatItsTwinDoes) {
  int entries = 0;
  for (int d = 0; d <= static_cast<int>(Dtype::complex128); ++d)
    entries += host_kernels().find(Kernel::csr_statistics, static_cast<Dtype>(d)) != nullptr ? 1 : 0;
  EXPECT_EQ(entries, 1) << "float64 alone has a twin here";
  Runtime runtime({.memory = GiB, .workers = 2});
  for (const bool bad : {false, true}) {
    Sample s;
    if (bad) {
      s.values[120] = std::numeric_limits<double>::quiet_NaN();
      s.values[121] = std::numeric_limits<double>::infinity();
      s.values[200] = -std::numeric_limits<double>::infinity();
    }
    std::vector<double> sums(Sample::n), squares(Sample::n);
    for (std::size_t p = 0; p < s.values.size(); ++p) {
      sums[static_cast<std::size_t>(s.columns[p])] += s.values[p];
      squares[static_cast<std::size_t>(s.columns[p])] += s.values[p] * s.values[p];
    }
    CsrStatistics found;
    const Statistics done = runtime.run([&](Graph& graph) { found = stream_statistics(graph, s.operand()); });
    EXPECT_EQ(done.of(Kernel::csr_statistics).calls, 6u);
    EXPECT_EQ(done.of(Kernel::csr_statistics).flops, 4.0 * static_cast<double>(s.values.size()));
    for (std::size_t j = 0; j < sums.size(); ++j) {
      if (std::isfinite(squares[j])) EXPECT_EQ(found.column_sums[j], sums[j]) << j;
      if (std::isfinite(squares[j])) EXPECT_EQ(found.column_squares[j], squares[j]) << j;
      EXPECT_EQ(std::isfinite(found.column_squares[j]), std::isfinite(squares[j])) << j;
    }
    EXPECT_EQ(found.bad_row, bad ? s.row_of[120] : -1);
    EXPECT_EQ(found.bad_column, bad ? s.columns[120] : -1);
  }
}

}  // namespace
}  // namespace flagstone::spectral
