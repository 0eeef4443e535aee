#include "flagstone/kernel/sort/pieces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace flagstone::kernel {
namespace {

template <class T>
const std::byte* bytes_of(const std::vector<T>& data) {
  return reinterpret_cast<const std::byte*>(data.data());
}

/// Rows whose columns lie anywhere, split in blocks, in buckets of unequal width, joined: the twin sorts by column.
template <class Stored, class Value, class Row>
void check(Index cols, int shift, bool wide_column, unsigned seed) {
  std::mt19937_64 random(seed);
  const Index rows = 300, ranges = ((cols - 1) >> shift) + 1;
  std::vector<std::uint16_t> of(static_cast<std::size_t>(ranges));
  for (Index r = 1; r < ranges; ++r) of[r] = static_cast<std::uint16_t>(of[r - 1] + (random() % 3 == 0 ? 1 : 0));
  const std::size_t buckets = of.back() + std::size_t{1};
  std::vector<Index> first(buckets + 1, cols);
  for (Index r = ranges - 1; r >= 0; --r) first[of[r]] = r << shift;
  std::vector<Index> pointers{0};
  std::vector<Stored> columns;
  std::vector<Value> values;
  for (Index i = 0; i < rows; ++i) {
    for (auto left = random() % 12; left > 0; --left) {
      columns.push_back(static_cast<Stored>(random() % static_cast<std::uint64_t>(cols)));
      values.push_back(static_cast<Value>(values.size() % 251));
    }
    pointers.push_back(static_cast<Index>(columns.size()));
  }
  const PieceRecord record{wide_column, sizeof(Value)};
  std::vector<std::vector<std::byte>> files(buckets);
  const Index origin = 70'000;  // rows in the middle of a matrix
  for (Index low = 0; low < rows; low += 113) {
    const Index high = std::min(rows, low + 113), before = pointers[low];
    std::vector<Index> own(pointers.begin() + low, pointers.begin() + high + 1), ends(buckets);
    for (Index& one : own) one -= before;
    std::vector<std::byte> to(static_cast<std::size_t>(own.back()) * record.bytes() + buckets * piece_header);
    split_block({origin + low, own, bytes_of(columns) + before * static_cast<Index>(sizeof(Stored)), sizeof(Stored),
                 bytes_of(values) + before * static_cast<Index>(sizeof(Value))},
                record, {of, shift, {first.data(), buckets}}, ends, to.data());
    for (std::size_t b = 0; b < buckets; ++b)
      files[b].insert(files[b].end(), to.begin() + (b == 0 ? 0 : ends[b - 1]), to.begin() + ends[b]);
  }
  std::vector<Index> order(columns.size()), row_of(columns.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return columns[a] < columns[b]; });
  for (Index i = 0; i < rows; ++i)
    std::fill(row_of.begin() + pointers[i], row_of.begin() + pointers[i + 1], origin + i);
  std::size_t at = 0;
  for (std::size_t b = 0; b < buckets; ++b) {
    const Index extent = first[b + 1] - first[b];
    for (Index low = 0; low < extent; low += 50) {  // in stretches
      const Index high = std::min(extent, low + 50), number = records_between(files[b], record, low, high);
      ASSERT_GE(number, 0);
      std::vector<Index> ends(static_cast<std::size_t>(high - low) + 1);
      std::vector<Row> found(static_cast<std::size_t>(number));
      std::vector<Value> kept(static_cast<std::size_t>(number));
      ASSERT_TRUE(
          join_pieces(files[b], record, extent, low, sizeof(Row) == 8,
                      {ends, reinterpret_cast<std::byte*>(found.data()), reinterpret_cast<std::byte*>(kept.data())}));
      ASSERT_EQ(ends.back(), number);
      for (Index c = low; c < high; ++c)
        for (Index p = ends[c - low]; p < ends[c - low + 1]; ++p, ++at) {
          ASSERT_EQ(static_cast<Index>(columns[order[at]]), first[b] + c);
          ASSERT_EQ(static_cast<Index>(found[p]), row_of[order[at]]);
          ASSERT_EQ(kept[p], values[order[at]]);
        }
    }
    if (files[b].empty()) continue;
    std::vector<Index> ends(static_cast<std::size_t>(extent) + 1);
    const std::span<const std::byte> cut(files[b].data(), files[b].size() - 1);
    EXPECT_EQ(records_between(cut, record, 0, extent), -1);
    EXPECT_FALSE(join_pieces(cut, record, extent, 0, false, {ends, nullptr, nullptr}));
  }
  EXPECT_EQ(at, columns.size());
}

TEST(Pieces, RowsBecomeColumnsWhateverTheirWidths) {
  check<std::uint8_t, float, std::int32_t>(200, 2, false, 1);
  check<std::uint16_t, double, std::int64_t>(5000, 4, false, 2);
  check<std::uint32_t, std::uint8_t, std::int32_t>(300'000, 12, true, 3);
  check<std::uint64_t, std::uint16_t, std::int64_t>(300'000, 12, true, 4);
}

TEST(Pieces, AColumnBeyondTheBucketIsFound) {
  const std::vector<Index> pointers{0, 1};
  const std::vector<std::uint32_t> columns{9};
  const std::vector<float> values{1};
  const std::vector<std::uint16_t> of{0};
  const std::vector<Index> first{0};
  std::vector<Index> ends(1), found(6);
  std::vector<std::byte> to(piece_header + 8);
  split_block({0, pointers, bytes_of(columns), 4, bytes_of(values)}, {}, {of, 4, first}, ends, to.data());
  EXPECT_FALSE(join_pieces(to, {}, 5, 0, false, {found, nullptr, nullptr}));
}

}  // namespace
}  // namespace flagstone::kernel
