#include "flagstone/kernel/sparse/split_rows.hpp"

#include <cstring>
#include <utility>

namespace flagstone::kernel {
namespace {

template <class Column, std::size_t bytes>
void split(const CsrRows& a, Index first, int shift, const SplitRows& to) {
  const auto* columns = reinterpret_cast<const Column*>(a.columns);
  const Index base = a.pointers[0], all = a.pointers[a.rows] - base;
  Index* next = to.ends.data() + 1;  // where a stripe's next value goes; in the end, where it ends
  for (std::size_t s = 1; s < to.ends.size(); ++s) to.ends[s] = 0;
  for (Index p = 0; p < all; ++p) ++next[columns[p] >> shift];
  Index start = to.ends[0];
  for (std::size_t s = 1; s < to.ends.size(); ++s) start += std::exchange(to.ends[s], start);
  const auto within = static_cast<Column>((Index{1} << shift) - 1);
  for (Index i = 0; i < a.rows; ++i) {
    const auto row = static_cast<std::uint32_t>(first + i);
    for (Index p = a.pointers[i] - base; p < a.pointers[i + 1] - base; ++p) {
      const Column column = columns[p];
      const Index place = next[column >> shift]++;
      to.rows[place] = row;
      to.columns[place] = static_cast<std::uint16_t>(column & within);
      std::memcpy(to.values + static_cast<std::size_t>(place) * bytes, a.values + static_cast<std::size_t>(p) * bytes,
                  bytes);
    }
  }
}

template <class Column>
void split_columns(const CsrRows& a, std::size_t value_bytes, Index first, int shift, const SplitRows& to) {
  if (value_bytes == 4) return split<Column, 4>(a, first, shift, to);
  if (value_bytes == 8) return split<Column, 8>(a, first, shift, to);
  split<Column, 16>(a, first, shift, to);
}

}  // namespace

void split_rows(const CsrRows& a, std::size_t value_bytes, Index first, int shift, const SplitRows& to) {
  if (a.column_dtype == Dtype::uint16) return split_columns<std::uint16_t>(a, value_bytes, first, shift, to);
  if (a.column_dtype == Dtype::uint32) return split_columns<std::uint32_t>(a, value_bytes, first, shift, to);
  split_columns<std::uint64_t>(a, value_bytes, first, shift, to);
}

}  // namespace flagstone::kernel
