#include "flagstone/kernel/sort/pieces.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace flagstone::kernel {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Calls work with two constants: the bytes of a column and of a value in a record.
template <class Work>
auto visit_record(const PieceRecord& record, Work&& work) {
  const auto with_values = [&](auto column) {
    if (record.value_bytes == 1) return work(column, std::integral_constant<std::size_t, 1>{});
    if (record.value_bytes == 2) return work(column, std::integral_constant<std::size_t, 2>{});
    if (record.value_bytes == 4) return work(column, std::integral_constant<std::size_t, 4>{});
    if (record.value_bytes == 8) return work(column, std::integral_constant<std::size_t, 8>{});
    return work(column, std::integral_constant<std::size_t, 16>{});
  };
  return record.wide_column ? with_values(std::uint32_t{}) : with_values(std::uint16_t{});
}

template <class Stored, class Column, std::size_t bytes>
void split(const BlockRows& block, const ColumnBuckets& buckets, std::span<Index> ends, std::byte* to) {
  constexpr std::size_t width = sizeof(std::uint16_t) + sizeof(Column) + bytes;
  const auto* columns = reinterpret_cast<const Stored*>(block.columns);
  const Index rows = static_cast<Index>(block.pointers.size()) - 1,
              all = block.pointers[static_cast<std::size_t>(rows)];
  const auto bucket = [&](Index p) { return buckets.of[static_cast<std::size_t>(columns[p] >> buckets.shift)]; };
  std::vector<Index> counts(ends.size(), 0);
  for (Index p = 0; p < all; ++p) ++counts[bucket(p)];
  std::vector<std::byte*> next(ends.size());
  Index end = 0;
  for (std::size_t b = 0; b < ends.size(); ++b) {
    if (counts[b] > 0) {
      std::memcpy(to + end, &block.first, sizeof block.first);
      std::memcpy(to + end + sizeof block.first, &counts[b], sizeof counts[b]);
      next[b] = to + end + piece_header;
      end += static_cast<Index>(piece_header) + counts[b] * static_cast<Index>(width);
    }
    ends[b] = end;
  }
  for (Index i = 0; i < rows; ++i) {
    const auto row = static_cast<std::uint16_t>(i);
    for (Index p = block.pointers[static_cast<std::size_t>(i)]; p < block.pointers[static_cast<std::size_t>(i) + 1];
         ++p) {
      const std::uint16_t b = bucket(p);
      const auto column = static_cast<Column>(static_cast<Index>(columns[p]) - buckets.first[b]);
      std::byte* record = next[b];
      next[b] += width;
      std::memcpy(record, &row, sizeof row);
      std::memcpy(record + sizeof row, &column, sizeof column);
      std::memcpy(record + sizeof row + sizeof column, block.values + static_cast<std::size_t>(p) * bytes, bytes);
    }
  }
}

/// Calls use(first row, records, number) for every piece; false where one is cut off.
template <class Use>
bool each_piece(std::span<const std::byte> pieces, std::size_t width, Use use) {
  while (!pieces.empty()) {
    if (pieces.size() < piece_header) return false;
    const auto first = load<Index>(pieces.data()), count = load<Index>(pieces.data() + sizeof(Index));
    pieces = pieces.subspan(piece_header);
    if (count < 0 || static_cast<std::size_t>(count) > pieces.size() / width) return false;
    use(first, pieces.data(), count);
    pieces = pieces.subspan(static_cast<std::size_t>(count) * width);
  }
  return true;
}

template <class Column, std::size_t bytes, class Row>
bool join(std::span<const std::byte> pieces, Index extent, Index low, const SortedRows& to) {
  constexpr std::size_t at_column = sizeof(std::uint16_t), at_value = at_column + sizeof(Column);
  constexpr std::size_t width = at_value + bytes;
  const Index high = low + static_cast<Index>(to.pointers.size()) - 1;
  // As in sort_entries: counted one place on, so that pointers end where their columns do.
  std::fill(to.pointers.begin(), to.pointers.end(), Index{0});
  Index* next = to.pointers.data() + 1;
  bool good = true;
  good &= each_piece(pieces, width, [&](Index, const std::byte* record, Index count) {
    for (Index i = 0; i < count; ++i, record += width) {
      const Index column = load<Column>(record + at_column);
      good &= column < extent;
      if (column >= low && column < high) ++next[column - low];
    }
  });
  if (!good) return false;
  Index before = 0;
  for (Index c = 0; c < high - low; ++c) before += std::exchange(next[c], before);
  auto* rows = reinterpret_cast<Row*>(to.columns);
  return each_piece(pieces, width, [&](Index first, const std::byte* record, Index count) {
    for (Index i = 0; i < count; ++i, record += width) {
      const Index column = load<Column>(record + at_column);
      if (column < low || column >= high) continue;
      const Index place = next[column - low]++;
      rows[place] = static_cast<Row>(first + load<std::uint16_t>(record));
      std::memcpy(to.values + static_cast<std::size_t>(place) * bytes, record + at_value, bytes);
    }
  });
}

}  // namespace

void split_block(const BlockRows& block, const PieceRecord& record, const ColumnBuckets& buckets, std::span<Index> ends,
                 std::byte* to) {
  visit_record(record, [&](auto column, auto bytes) {
    using Column = decltype(column);
    if (block.column_bytes == 1) return split<std::uint8_t, Column, bytes>(block, buckets, ends, to);
    if (block.column_bytes == 2) return split<std::uint16_t, Column, bytes>(block, buckets, ends, to);
    if (block.column_bytes == 4) return split<std::uint32_t, Column, bytes>(block, buckets, ends, to);
    split<std::uint64_t, Column, bytes>(block, buckets, ends, to);
  });
}

bool join_pieces(std::span<const std::byte> pieces, const PieceRecord& record, Index width, Index first, bool wide_rows,
                 const SortedRows& to) {
  return visit_record(record, [&](auto column, auto bytes) {
    using Column = decltype(column);
    return wide_rows ? join<Column, bytes, std::int64_t>(pieces, width, first, to)
                     : join<Column, bytes, std::int32_t>(pieces, width, first, to);
  });
}

Index records_between(std::span<const std::byte> pieces, const PieceRecord& record, Index first, Index last) {
  return visit_record(record, [&](auto column, auto) {
    using Column = decltype(column);
    Index found = 0;
    const bool whole = each_piece(pieces, record.bytes(), [&](Index, const std::byte* at, Index count) {
      for (Index i = 0; i < count; ++i, at += record.bytes()) {
        const Index c = load<Column>(at + sizeof(std::uint16_t));
        found += c >= first && c < last;
      }
    });
    return whole ? found : Index{-1};
  });
}

}  // namespace flagstone::kernel
