#pragma once
// For tests: sparse rows in memory, appended to a writer and compared with what is stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "flagstone/storage/sparse/csr.hpp"
#include "flagstone/storage/sparse/panels.hpp"
#include "flagstone/testing/array_io.hpp"

namespace flagstone::test {

/// A matrix as rows of (column, value), any order, repeats allowed.
template <class V>
struct Rows {
  std::vector<Index> pointers{0}, columns;
  std::vector<V> values;

  void add(const std::vector<std::pair<Index, V>>& row) {
    for (const auto& [column, value] : row) columns.push_back(column), values.push_back(value);
    pointers.push_back(static_cast<Index>(columns.size()));
  }
  Index rows() const { return static_cast<Index>(pointers.size()) - 1; }
};

template <class V>
Rows<V> random_rows(Index rows, Index cols, double per_row, bool canonical, std::mt19937_64& random) {
  Rows<V> result;
  std::poisson_distribution<int> count(per_row);
  for (Index i = 0; i < rows; ++i) {
    std::map<Index, V> sorted;
    std::vector<std::pair<Index, V>> row;
    for (int n = count(random); n > 0; --n) {
      const auto column = static_cast<Index>(random() % static_cast<std::uint64_t>(cols));
      const auto value = static_cast<V>(random() % 7);
      row.push_back({column, value});
      sorted[column] = value;
    }
    if (canonical) row.assign(sorted.begin(), sorted.end());
    result.add(row);
  }
  return result;
}

/// What must be on disk: sorted, summed.
template <class V>
Rows<V> canonical(const Rows<V>& given) {
  Rows<V> result;
  for (Index i = 0; i < given.rows(); ++i) {
    std::map<Index, V> row;
    for (Index p = given.pointers[static_cast<std::size_t>(i)]; p < given.pointers[static_cast<std::size_t>(i) + 1];
         ++p)
      row[given.columns[static_cast<std::size_t>(p)]] += given.values[static_cast<std::size_t>(p)];
    result.add({row.begin(), row.end()});
  }
  return result;
}

template <class V>
void append_in_blocks(CsrWriter& writer, const Rows<V>& rows, Index block) {
  for (Index first = 0; first < rows.rows(); first += block) {
    const Index n = std::min(block, rows.rows() - first);
    const Index start = rows.pointers[static_cast<std::size_t>(first)];
    std::vector<Index> pointers(rows.pointers.begin() + first, rows.pointers.begin() + first + n + 1);
    for (Index& pointer : pointers) pointer -= start;
    writer.append(n, pointers.data(), rows.columns.data() + start, rows.values.data() + start);
  }
}

template <class V>
std::vector<V> all_values(const Array& array) {
  const auto bytes = read_elements(array, whole(array.shape()));
  std::vector<V> values(bytes.size() / sizeof(V));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class V>
void expect_stored(const CsrMatrix& matrix, const Rows<V>& expected) {
  EXPECT_EQ(matrix.rows, expected.rows());
  EXPECT_EQ(matrix.nnz, static_cast<Index>(expected.values.size()));
  EXPECT_EQ(read_integers(matrix.indptr, 0, matrix.rows + 1), expected.pointers);
  EXPECT_EQ(read_integers(matrix.indices, 0, matrix.nnz), expected.columns);
  EXPECT_EQ(all_values<V>(matrix.data), expected.values);
}

}  // namespace flagstone::test
