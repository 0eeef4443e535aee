#include "flagstone/kernel/sort/entries.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace flagstone::kernel {
namespace {

void store(std::byte* to, bool wide, Index value) {
  const auto narrow = static_cast<std::int32_t>(value);
  if (wide)
    std::memcpy(to, &value, sizeof value);
  else
    std::memcpy(to, &narrow, sizeof narrow);
}

Index row_of(const std::byte* record, bool wide) {
  std::int64_t row = 0;
  std::int32_t narrow = 0;
  if (wide) {
    std::memcpy(&row, record, sizeof row);
    return row;
  }
  std::memcpy(&narrow, record, sizeof narrow);
  return narrow;
}

/// Calls work with the bytes of a value as a constant, so that each copy is one instruction.
template <class Work>
void visit_bytes(std::size_t bytes, Work&& work) {
  if (bytes == 1) return work(std::integral_constant<std::size_t, 1>{});
  if (bytes == 2) return work(std::integral_constant<std::size_t, 2>{});
  if (bytes == 4) return work(std::integral_constant<std::size_t, 4>{});
  if (bytes == 8) return work(std::integral_constant<std::size_t, 8>{});
  work(std::integral_constant<std::size_t, 16>{});
}

}  // namespace

Index count_rows(Integers rows, Index n, Index extent, int shift, std::span<Index> counts) {
  for (Index i = 0; i < n; ++i) {
    const Index row = rows.at(i);
    if (row < 0 || row >= extent) return i;
    ++counts[static_cast<std::size_t>(row >> shift)];
  }
  return -1;
}

void scatter_entries(Integers rows, Integers columns, const std::byte* values, Index n, const EntryRecord& record,
                     const Buckets& buckets, std::byte* to) {
  const auto bucket = [&](Index i) { return buckets.of[static_cast<std::size_t>(rows.at(i) >> buckets.shift)]; };
  std::vector<Index> next(buckets.ends.size() + 1, 0);
  for (Index i = 0; i < n; ++i) ++next[std::size_t{bucket(i)} + 1];
  for (std::size_t b = 0; b < buckets.ends.size(); ++b) buckets.ends[b] = next[b + 1] += next[b];
  const std::size_t width = record.bytes(), at_column = record.wide_row ? 8 : 4;
  const std::size_t at_value = at_column + (record.wide_column ? 8 : 4);
  visit_bytes(record.value_bytes, [&](auto bytes) {
    for (Index i = 0; i < n; ++i) {
      std::byte* place = to + static_cast<std::size_t>(next[bucket(i)]++) * width;
      store(place, record.wide_row, rows.at(i));
      store(place + at_column, record.wide_column, columns.at(i));
      std::memcpy(place + at_value, values + static_cast<std::size_t>(i) * bytes, bytes);
    }
  });
}

bool sort_entries(const std::byte* records, Index n, const EntryRecord& record, Index first, const SortedRows& to) {
  const std::size_t width = record.bytes(), at_column = record.wide_row ? 8 : 4;
  const std::size_t column_bytes = record.wide_column ? 8 : 4, at_value = at_column + column_bytes;
  const auto rows = static_cast<Index>(to.pointers.size()) - 1;
  // Counted one place on: while rows are filled, a pointer stands where its next entry goes, and ends where the next
  // row begins.
  std::fill(to.pointers.begin(), to.pointers.end(), Index{0});
  for (Index i = 0; i < n; ++i) {
    const Index row = row_of(records + static_cast<std::size_t>(i) * width, record.wide_row) - first;
    if (row < 0 || row >= rows) return false;
    ++to.pointers[static_cast<std::size_t>(row) + 1];
  }
  for (Index r = 0, before = 0; r < rows; ++r) {
    const Index length = to.pointers[static_cast<std::size_t>(r) + 1];
    to.pointers[static_cast<std::size_t>(r) + 1] = before;
    before += length;
  }
  visit_bytes(record.value_bytes, [&](auto bytes) {
    for (Index i = 0; i < n; ++i) {
      const std::byte* entry = records + static_cast<std::size_t>(i) * width;
      const Index row = row_of(entry, record.wide_row) - first;
      const auto place = static_cast<std::size_t>(to.pointers[static_cast<std::size_t>(row) + 1]++);
      if (record.wide_column)
        std::memcpy(to.columns + place * 8, entry + at_column, 8);
      else
        std::memcpy(to.columns + place * 4, entry + at_column, 4);
      std::memcpy(to.values + place * bytes, entry + at_value, bytes);
    }
  });
  return true;
}

void keep_largest(std::span<const Index> pointers, Integers columns, const double* values, Index top,
                  std::span<Index> work, std::uint8_t* stay) {
  const auto before = [&](Index a, Index b) {
    const bool none_a = std::isnan(values[a]), none_b = std::isnan(values[b]);
    if (none_a != none_b) return none_b;
    if (!none_a && values[a] != values[b]) return values[a] > values[b];
    return columns.at(a) < columns.at(b);
  };
  for (std::size_t row = 0; row + 1 < pointers.size(); ++row) {
    Index count = 0;
    for (Index i = pointers[row]; i < pointers[row + 1]; ++i)
      if (stay[i]) work[static_cast<std::size_t>(count++)] = i;
    if (count <= top) continue;
    const auto first = work.begin();
    std::nth_element(first, first + top, first + count, before);
    for (auto at = first + top; at < first + count; ++at) stay[*at] = 0;
  }
}

}  // namespace flagstone::kernel
