#pragma once
// Rows folded by group: sums, or means and squared differences, of every column.
#include <cstdint>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

enum class GroupFold : std::uint8_t { sum, var };

/// Words of 8 bytes that one group has of each column: a sum of float64 is compensated (high, low), one of float32 is
/// added in float64, of integers modulo 2^64; a variance is mean and squared differences.
int group_words(GroupFold fold, Dtype dtype);
/// Bytes of the accumulators: word w of column k of group g is at (w groups + g) columns + k; of a variance the number
/// of rows of each group follows.
std::size_t group_bytes(GroupFold fold, Dtype dtype, Index groups, Index columns);

/// Folds the rows of `values` (its first dimension; the others are its columns, in C order) in their order, row i into
/// group labels[i]; none where that is below 0. float32, float64, int64, uint64.
void group_rows(GroupFold fold, const Tile& values, const Index* labels, Index groups, std::byte* words);
/// to := to folded with from. Variances join by Chan's formula.
void join_groups(GroupFold fold, Dtype dtype, Index groups, Index columns, const std::byte* from, std::byte* to);

}  // namespace flagstone::kernel
