// Entries by buckets and by rows: against std::stable_sort.
#include "flagstone/kernel/sort/entries.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace flagstone::kernel {
namespace {

struct Entry {
  std::int64_t row = 0, column = 0;
  std::vector<std::byte> value;
  bool operator==(const Entry&) const = default;
};

std::vector<Entry> some_entries(std::size_t n, Index rows, std::size_t value_bytes) {
  std::mt19937_64 random(n + value_bytes);
  std::vector<Entry> made(n);
  for (Entry& entry : made) {
    entry.row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows));
    entry.column = static_cast<std::int64_t>(random() % 1'000'000);
    for (std::size_t b = 0; b < value_bytes; ++b) entry.value.push_back(static_cast<std::byte>(random()));
  }
  return made;
}

std::int64_t integer_at(const std::byte* from, bool wide) {
  std::int64_t value = 0;
  std::int32_t narrow = 0;
  std::memcpy(wide ? static_cast<void*>(&value) : &narrow, from, wide ? 8 : 4);
  return wide ? value : narrow;
}

Entry entry_at(const std::byte* from, const EntryRecord& record) {
  const std::byte* column = from + (record.wide_row ? 8 : 4);
  const std::byte* value = column + (record.wide_column ? 8 : 4);
  return {
      integer_at(from, record.wide_row), integer_at(column, record.wide_column), {value, value + record.value_bytes}};
}

/// The entries as columns of a table, integers of either width.
struct Columns {
  Columns(const std::vector<Entry>& entries, bool wide) : wide(wide) {
    for (const Entry& entry : entries) {
      rows64.push_back(entry.row), columns64.push_back(entry.column);
      rows32.push_back(static_cast<std::int32_t>(entry.row)),
          columns32.push_back(static_cast<std::int32_t>(entry.column));
      values.insert(values.end(), entry.value.begin(), entry.value.end());
    }
  }
  Integers rows() const { return wide ? Integers{rows64.data(), true} : Integers{rows32.data(), false}; }
  Integers columns() const { return wide ? Integers{columns64.data(), true} : Integers{columns32.data(), false}; }
  bool wide;
  std::vector<std::int64_t> rows64, columns64;
  std::vector<std::int32_t> rows32, columns32;
  std::vector<std::byte> values;
};

class EntriesTest : public testing::TestWithParam<std::tuple<bool, bool, std::size_t>> {
 protected:
  EntryRecord record() const {
    const auto [wide_row, wide_column, bytes] = GetParam();
    return {wide_row, wide_column, bytes};
  }
};

TEST_P(EntriesTest, BucketsHoldTheirEntriesInOrder) {
  const EntryRecord record = this->record();
  constexpr Index rows = 1000, n = 5000;
  constexpr int shift = 4;
  const auto entries = some_entries(n, rows, record.value_bytes);
  std::vector<std::uint16_t> bucket_of(63);
  for (std::size_t i = 0; i < bucket_of.size(); ++i) bucket_of[i] = static_cast<std::uint16_t>(i / 20);
  for (const bool wide : {false, true}) {
    const Columns given(entries, wide);
    std::vector<Index> counts(63, 0), ends(5, 0);
    ASSERT_EQ(count_rows(given.rows(), n, rows, shift, counts), -1);
    std::vector<std::byte> to(n * record.bytes());
    scatter_entries(given.rows(), given.columns(), given.values.data(), n, record, {bucket_of, shift, ends}, to.data());
    const auto bucket = [&](const Entry& entry) { return bucket_of[static_cast<std::size_t>(entry.row >> shift)]; };
    auto expected = entries;
    std::stable_sort(expected.begin(), expected.end(), [&](auto& a, auto& b) { return bucket(a) < bucket(b); });
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(entry_at(to.data() + i * record.bytes(), record), expected[i]) << i;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), Index{0}), n);
    EXPECT_EQ(ends[4], n);  // no rows lie in the last
    EXPECT_EQ(ends[3], n);
    EXPECT_EQ(ends[0], std::accumulate(counts.begin(), counts.begin() + 20, Index{0}));
  }
}

TEST_P(EntriesTest, RowsComeInOrderAndKeepTheirEntriesInOrder) {
  const EntryRecord record = this->record();
  for (const std::size_t n : {0u, 1u, 3000u}) {
    constexpr Index rows = 90, first = 7;
    auto entries = some_entries(n, rows - 20, record.value_bytes);  // the last rows are empty
    for (Entry& entry : entries) entry.row += first;
    const Columns given(entries, true);
    std::vector<std::byte> records(n * record.bytes() + 1);
    const std::vector<std::uint16_t> one(1, 0);
    std::vector<Index> ends(1);
    scatter_entries(given.rows(), given.columns(), given.values.data(), static_cast<Index>(n), record, {one, 30, ends},
                    records.data());
    std::vector<Index> pointers(rows + 1, -1);
    const std::size_t column_bytes = record.wide_column ? 8 : 4;
    std::vector<std::byte> columns(n * column_bytes + 1), values(n * record.value_bytes + 1);
    ASSERT_TRUE(
        sort_entries(records.data(), static_cast<Index>(n), record, first, {pointers, columns.data(), values.data()}));
    std::stable_sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.row < b.row; });
    ASSERT_EQ(pointers.front(), 0);
    ASSERT_EQ(pointers.back(), static_cast<Index>(n));
    for (Index r = 0; r < rows; ++r)
      for (auto i = static_cast<std::size_t>(pointers[static_cast<std::size_t>(r)]);
           i < static_cast<std::size_t>(pointers[static_cast<std::size_t>(r) + 1]); ++i) {
        const std::byte* value = values.data() + i * record.value_bytes;
        const Entry found{r + first,
                          integer_at(columns.data() + i * column_bytes, record.wide_column),
                          {value, value + record.value_bytes}};
        ASSERT_EQ(found, entries[i]) << i;
      }
    if (n > 1)  // some of them in the first row
      EXPECT_FALSE(sort_entries(records.data(), static_cast<Index>(n), record, first + 1,
                                {pointers, columns.data(), values.data()}));
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, EntriesTest,
                         testing::Combine(testing::Bool(), testing::Bool(), testing::Values(1, 2, 4, 8, 16)));

TEST(Entries, TheFirstRowOutOfRangeIsTold) {
  std::vector<Index> counts(2, 0);
  const std::vector<std::int64_t> rows{0, 9, 3, 10, -1};
  EXPECT_EQ(count_rows({rows.data(), true}, 5, 10, 3, counts), 3);
  const std::vector<std::int32_t> narrow{0, -1};
  EXPECT_EQ(count_rows({narrow.data(), false}, 2, 10, 3, counts), 1);
}

TEST(Entries, TheLargestOfARowStayWithTiesByColumnAndNaNLast) {
  std::mt19937_64 random(3);
  const std::vector<Index> pointers{0, 0, 7, 60, 61, 400};
  std::vector<std::int32_t> columns(400);
  std::vector<double> values(400);
  std::vector<std::uint8_t> stay(400);
  for (std::size_t i = 0; i < 400; ++i) {
    columns[i] = static_cast<std::int32_t>(random() % 100'000);
    values[i] = random() % 9 == 0 ? std::nan("") : static_cast<double>(random() % 7) - 3;
    stay[i] = random() % 4 != 0;
  }
  for (const Index top : {Index{1}, Index{5}, Index{100}, Index{1000}}) {
    std::vector<std::uint8_t> wanted(400), found = stay;
    for (std::size_t row = 0; row + 1 < pointers.size(); ++row) {
      std::vector<Index> all;
      for (Index i = pointers[row]; i < pointers[row + 1]; ++i)
        if (stay[i]) all.push_back(i);
      std::sort(all.begin(), all.end(), [&](Index a, Index b) {
        const double x = std::isnan(values[a]) ? -9 : values[a], y = std::isnan(values[b]) ? -9 : values[b];
        return x != y ? x > y : columns[a] < columns[b];
      });
      for (std::size_t i = 0; i < all.size() && static_cast<Index>(i) < top; ++i) wanted[all[i]] = 1;
    }
    std::vector<Index> work(339);
    keep_largest(pointers, {columns.data(), false}, values.data(), top, work, found.data());
    EXPECT_EQ(found, wanted) << top;
  }
}

}  // namespace
}  // namespace flagstone::kernel
