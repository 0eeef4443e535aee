#include "flagstone/kernel/sparse/split_rows.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <random>
#include <vector>

namespace flagstone::kernel {
namespace {

template <class Column>
constexpr Dtype column_of = sizeof(Column) == 2   ? Dtype::uint16
                            : sizeof(Column) == 4 ? Dtype::uint32
                                                  : Dtype::uint64;

/// Rows of random lengths, some of them empty, with columns in any order.
template <class Real, class Column>
struct Rows {
  std::vector<Index> pointers{5};  // rows in the middle of others
  std::vector<Real> values;
  std::vector<Column> columns;
  Index cols;

  Rows(Index rows, Index all, std::mt19937& random) : cols(all) {
    for (Index i = 0; i < rows; ++i) {
      for (unsigned left = random() % 9; left > 0; --left) {
        values.push_back(static_cast<Real>(static_cast<int>(random() % 64) - 32));
        columns.push_back(static_cast<Column>(random() % static_cast<std::uint64_t>(cols)));
      }
      pointers.push_back(5 + static_cast<Index>(values.size()));
    }
  }
  CsrRows view() const {
    return {static_cast<Index>(pointers.size()) - 1,
            cols,
            pointers.data(),
            reinterpret_cast<const std::byte*>(values.data()),
            reinterpret_cast<const std::byte*>(columns.data()),
            column_of<Column>};
  }
};

template <class Real>
Tile tile_of(std::vector<Real>& data, Dtype dtype, Index rows, Index cols) {
  const auto item = static_cast<Index>(sizeof(Real));
  return {
      reinterpret_cast<std::byte*>(data.data()), dtype, {rows, cols}, {cols * item, item}, data.size() * sizeof(Real)};
}

/// Splits, looks at every stripe's order, and adds each stripe's columns to Y: the twin adds value by value.
template <class Real, class Column>
void check(Dtype dtype, Index width, int shift) {
  std::mt19937 random(static_cast<unsigned>(width * 31 + shift));
  const Index cols = 777, n = 90, first = 40;
  const Rows<Real, Column> a(n, cols, random);
  const auto stripes = static_cast<std::size_t>((cols - 1) >> shift) + 1, count = a.values.size();
  std::vector<Index> ends(stripes + 1, 3);
  const std::size_t bytes = record_bytes(sizeof(Real));
  std::vector<std::byte> records((count + 3) * bytes);
  std::vector<Real> t(static_cast<std::size_t>((first + n) * width)), y(static_cast<std::size_t>(cols * width)),
      wanted(y.size());
  split_rows(a.view(), sizeof(Real), first, shift, ends, records.data());
  ASSERT_EQ(ends.front(), 3);
  ASSERT_EQ(ends.back(), static_cast<Index>(count) + 3);
  for (Real& one : t) one = static_cast<Real>(static_cast<int>(random() % 32) - 16);
  for (Index i = 0; i < n; ++i)
    for (Index p = a.pointers[i] - 5; p < a.pointers[i + 1] - 5; ++p)
      for (Index k = 0; k < width; ++k) wanted[a.columns[p] * width + k] += a.values[p] * t[(first + i) * width + k];
  const Tile all = tile_of(y, dtype, cols, width), given = tile_of(t, dtype, first + n, width);
  for (std::size_t s = 0; s < stripes; ++s) {
    const auto row = [&](Index p) {
      std::uint16_t number = 0;
      std::memcpy(&number, records.data() + static_cast<std::size_t>(p) * bytes, sizeof number);
      return number;
    };
    for (Index p = ends[s] + 1; p < ends[s + 1]; ++p) ASSERT_LE(row(p - 1), row(p));
    const Index from = static_cast<Index>(s) << shift, length = std::min(cols - from, Index{1} << shift);
    csr_scatter({ends[s + 1] - ends[s], records.data() + static_cast<std::size_t>(ends[s]) * bytes}, given,
                subtile(all, {{from, 0}, {length, width}}));
  }
  EXPECT_EQ(y, wanted);  // small whole numbers: exact in every order
}

TEST(SplitRows, StripesHoldTheirValuesInTheOrderOfTheRows) {
  for (const Index width : {1, 2, 3, 7, 16, 50, 64, 67})
    for (const int shift : {3, 8, 10}) {
      check<float, std::uint16_t>(Dtype::float32, width, shift);
      check<float, std::uint32_t>(Dtype::float32, width, shift);
      check<double, std::uint32_t>(Dtype::float64, width, shift);
      check<double, std::uint64_t>(Dtype::float64, width, shift);
      check<std::complex<float>, std::uint16_t>(Dtype::complex64, width, shift);
      check<std::complex<double>, std::uint32_t>(Dtype::complex128, width, shift);
    }
}

TEST(SplitRows, NothingIsSplitIntoEmptyStripes) {
  const std::vector<Index> pointers{0, 0, 0};
  std::vector<Index> ends(4, 7);
  split_rows({2, 24, pointers.data(), nullptr, nullptr, Dtype::uint16}, 4, 0, 3, ends, nullptr);
  EXPECT_EQ(ends, (std::vector<Index>{7, 7, 7, 7}));
}

}  // namespace
}  // namespace flagstone::kernel
