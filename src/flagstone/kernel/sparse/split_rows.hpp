#pragma once
// Decoded rows cut into stripes of columns, so that sums over rows touch no more of their result than a cache holds.
#include <span>

#include "flagstone/kernel/sparse/csr.hpp"

namespace flagstone::kernel {

/// Where the values of some rows go: those of a stripe together, in the order of the rows.
struct SplitRows {
  std::span<Index> ends;  // one more than stripes: stripe s has places [ends[s], ends[s + 1]); ends[0] is given
  std::uint32_t* rows = nullptr;
  std::uint16_t* columns = nullptr;  // counted from the first of the stripe
  std::byte* values = nullptr;
};
/// Stripes are 2^shift columns wide, 65,536 at most; rows are counted from `first`. Two looks at the columns, one write
/// of 6 bytes and a value each: 2 ns a value while stripes are no more than some dozens, each a stream of the cache.
void split_rows(const CsrRows& a, std::size_t value_bytes, Index first, int shift, const SplitRows& to);

}  // namespace flagstone::kernel
