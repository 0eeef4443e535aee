#include "flagstone/kernel/sparse/split_rows.hpp"

#include <cstring>
#include <utility>

namespace flagstone::kernel {
namespace {

template <class Column, std::size_t bytes>
void split(const CsrRows& a, Index first, int shift, std::span<Index> ends, std::byte* to) {
  const auto* columns = reinterpret_cast<const Column*>(a.columns);
  const Index base = a.pointers[0], all = a.pointers[a.rows] - base;
  Index* next = ends.data() + 1;  // where a stripe's next record goes; in the end, where it ends
  for (std::size_t s = 1; s < ends.size(); ++s) ends[s] = 0;
  for (Index p = 0; p < all; ++p) ++next[columns[p] >> shift];
  Index start = ends[0];
  for (std::size_t s = 1; s < ends.size(); ++s) start += std::exchange(ends[s], start);
  const auto within = static_cast<Column>((Index{1} << shift) - 1);
  for (Index i = 0; i < a.rows; ++i) {
    const auto row = static_cast<std::uint16_t>(first + i);
    for (Index p = a.pointers[i] - base; p < a.pointers[i + 1] - base; ++p) {
      const std::uint16_t places[2] = {row, static_cast<std::uint16_t>(columns[p] & within)};
      std::byte* record = to + static_cast<std::size_t>(next[columns[p] >> shift]++) * record_bytes(bytes);
      std::memcpy(record, places, sizeof places);
      std::memcpy(record + sizeof places, a.values + static_cast<std::size_t>(p) * bytes, bytes);
    }
  }
}

template <class Column>
void split_columns(const CsrRows& a, std::size_t value_bytes, Index first, int shift, std::span<Index> ends,
                   std::byte* to) {
  if (value_bytes == 4) return split<Column, 4>(a, first, shift, ends, to);
  if (value_bytes == 8) return split<Column, 8>(a, first, shift, ends, to);
  split<Column, 16>(a, first, shift, ends, to);
}

}  // namespace

void split_rows(const CsrRows& a, std::size_t value_bytes, Index first, int shift, std::span<Index> ends,
                std::byte* to) {
  if (a.column_dtype == Dtype::uint16) return split_columns<std::uint16_t>(a, value_bytes, first, shift, ends, to);
  if (a.column_dtype == Dtype::uint32) return split_columns<std::uint32_t>(a, value_bytes, first, shift, ends, to);
  split_columns<std::uint64_t>(a, value_bytes, first, shift, ends, to);
}

}  // namespace flagstone::kernel
