#pragma once
// Entries (row, column, value) of sparse matrices: into buckets of rows, and by rows. Stable counting sorts, one read
// and one write of each entry.
#include <cstddef>
#include <cstdint>
#include <span>

#include "flagstone/base/dtype.hpp"

namespace flagstone::kernel {

/// Integers of 4 or 8 bytes, in memory as they come.
struct Integers {
  const void* data = nullptr;
  bool wide = true;  // int64; else int32
  Index at(Index i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

/// How an entry lies in a file: row, column, value, without gaps.
struct EntryRecord {
  bool wide_row = false, wide_column = false;  // 8 bytes; else 4
  std::size_t value_bytes = 4;
  std::size_t bytes() const { return (wide_row ? 8 : 4) + (wide_column ? 8 : 4) + value_bytes; }
};

/// counts[rows[i] >> shift] += 1. The first i whose row is not in [0, extent), which ends it; -1: there is none.
Index count_rows(Integers rows, Index n, Index extent, int shift, std::span<Index> counts);

/// Where the entries of a block go.
struct Buckets {
  std::span<const std::uint16_t> of;  // of rows >> shift
  int shift = 0;
  std::span<Index> ends;  // of each bucket's entries: filled in
};
/// to := the records of n entries, those of a bucket together in their order. Rows must be in range: they were counted.
void scatter_entries(Integers rows, Integers columns, const std::byte* values, Index n, const EntryRecord& record,
                     const Buckets& buckets, std::byte* to);

/// Rows as CSR has them: pointers (rows + 1, from 0), columns (4 or 8 bytes, as in the record) and values.
struct SortedRows {
  std::span<Index> pointers;
  std::byte* columns = nullptr;
  std::byte* values = nullptr;
};
/// The n records whose rows are first .. first + pointers.size() - 2, by row, of equal rows in their order. False: a
/// row is another; what was written is of no use.
bool sort_entries(const std::byte* records, Index n, const EntryRecord& record, Index first, const SortedRows& to);

/// Of each row that pointers (from 0) mark, among the entries that `stay`, the `top` largest values: of equal ones
/// those of lower columns, NaN last. Others stay no longer. O(entries) steps; `work`: as many places as the longest row
/// has.
void keep_largest(std::span<const Index> pointers, Integers columns, const double* values, Index top,
                  std::span<Index> work, std::uint8_t* stay);

}  // namespace flagstone::kernel
