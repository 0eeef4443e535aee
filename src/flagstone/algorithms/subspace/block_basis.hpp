#pragma once
// Z, a block-diagonal basis: of each group a dense block with orthonormal columns, stored once where several are equal.
#include <utility>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone::subspace {

/// Numbers of groups that are handled together: about so many bytes of Z. From the data alone, so that H' is the same
/// for every limit. Larger stripes lose the sparsity between groups, smaller ones pay for each task.
inline constexpr std::uint64_t stripe_bytes = 512 * 1024;
/// Blocks of Z and of H' begin and end where chunks do: a page.
inline constexpr Index chunk_bytes = 4096;

/// Where the blocks of groups lie. A block is rows x columns in C order, of group `rows[g]` x `columns[g]`.
struct BlockLayout {
  std::vector<Index> rows, columns;
  std::vector<std::int32_t> stored;  // of each group: which stored block; -1 where it has no columns
  std::vector<Index> offsets;        // of each stored block, in elements of its file
  std::vector<std::int32_t> file;    // of each stored block
  std::vector<Index> stripes;        // first groups; the last is the number of groups
  std::vector<std::int32_t> writes;  // first stored blocks of what one task makes; the last is their number
  std::vector<Index> lengths;        // elements of each file, whole chunks

  Index groups() const { return static_cast<Index>(rows.size()); }
  Index stripe_count() const { return static_cast<Index>(stripes.size()) - 1; }
  Index stripe_of(Index group) const;
  Index total_rows() const;
  Index total_columns() const;
};

/// Lays out blocks of these shapes; groups with equal `same` share a block (negative: all differ), that of the first
/// of them. Group g goes to file g mod `files`, as Aktulga et al. (Euro-Par 2012) deal them.
BlockLayout lay_out(std::vector<Index> rows, std::vector<Index> columns, const std::vector<std::int32_t>& same,
                    std::size_t item, Index files);
/// The layout of arrays that were stored: `stored`, `offsets` and `file` as they were noted.
BlockLayout known_layout(std::vector<Index> rows, std::vector<Index> columns, std::vector<std::int32_t> stored,
                         std::vector<Index> offsets, std::vector<std::int32_t> file, std::vector<Index> lengths,
                         std::size_t item);

struct BlockBasis {
  std::vector<Array> values;  // one a file, 1-D, float32 or float64; several handles of each
  BlockLayout layout;
};

}  // namespace flagstone::subspace
