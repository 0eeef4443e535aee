#pragma once
// Rows of a matrix on their way into columns (csrcsc): a block of rows leaves a piece in each bucket of columns, whose
// records tell row and column in 16 bits each. 8 bytes a float32 value are written once and read once.
#include <span>

#include "flagstone/kernel/sort/entries.hpp"

namespace flagstone::kernel {

/// A record: the row counted from the piece's first one (uint16), the column counted from the bucket's first one
/// (uint16, or uint32 where a bucket is wider), the value.
struct PieceRecord {
  bool wide_column = false;
  std::size_t value_bytes = 4;
  std::size_t bytes() const { return (wide_column ? 6 : 4) + value_bytes; }
};
/// A piece begins with its first row and its number of records, both int64.
inline constexpr std::size_t piece_header = 16;
inline constexpr Index most_piece_rows = Index{1} << 16;

/// Some rows of a matrix, as they are stored: columns of 1, 2, 4 or 8 bytes, in range.
struct BlockRows {
  Index first = 0;  // their first row's number
  std::span<const Index> pointers;
  const std::byte* columns = nullptr;
  std::size_t column_bytes = 4;
  const std::byte* values = nullptr;
};
struct ColumnBuckets {
  std::span<const std::uint16_t> of;  // of columns >> shift
  int shift = 0;
  std::span<const Index> first;  // the first column of each
};
/// to := a piece for every bucket that has values of these rows (most_piece_rows at most), in their order; `ends` of
/// each in bytes. Two looks at the columns and one write of each record. `to` has room for all records and headers.
void split_block(const BlockRows& block, const PieceRecord& record, const ColumnBuckets& buckets, std::span<Index> ends,
                 std::byte* to);

/// By column, in the order of the rows: those columns of a bucket's pieces that are `first` and as many more as
/// `to.pointers` has places, counted from the bucket's first. False: a piece is cut off, or names a column from `width`
/// on.
bool join_pieces(std::span<const std::byte> pieces, const PieceRecord& record, Index width, Index first, bool wide_rows,
                 const SortedRows& to);
/// How many records of `pieces` have a column in [first, last); -1: a piece is cut off.
Index records_between(std::span<const std::byte> pieces, const PieceRecord& record, Index first, Index last);

}  // namespace flagstone::kernel
