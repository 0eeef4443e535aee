#pragma once
// Decoded rows cut into stripes of columns, so that sums over rows touch no more of their result than a cache holds.
#include <span>

#include "flagstone/kernel/sparse/csr.hpp"

namespace flagstone::kernel {

inline constexpr Index most_split_rows = Index{1} << 16;  // records count them in 16 bits, and columns of a stripe
constexpr std::size_t record_bytes(std::size_t value_bytes) { return 4 + value_bytes; }

/// to := records (CsrRecords) of all values, those of a stripe together, in the order of the rows. Stripes are 2^shift
/// columns wide, 65,536 at most; rows are counted from `first`. ends (one more than stripes) := where each begins and
/// the last one ends, from ends[0] on, which is given. Two looks at the columns and one write of each record, each
/// stripe a stream: some dozens of them are no matter.
void split_rows(const CsrRows& a, std::size_t value_bytes, Index first, int shift, std::span<Index> ends,
                std::byte* to);

}  // namespace flagstone::kernel
