#pragma once
// H by rows, both triangles, of a source that makes blocks on and below the diagonal: for who stores it.
#include <memory>
#include <vector>

#include "flagstone/algorithms/subspace/block_source.hpp"

namespace flagstone::subspace {

/// Rows of one group after the other; a block below the diagonal is made twice, once for its transpose. One thread.
class GroupRows {
 public:
  explicit GroupRows(std::shared_ptr<const BlockSource> h);
  /// Of the pattern, as long as it lives.
  std::size_t bytes() const;
  /// A bound of the stored values of all rows.
  Index most_nonzeros() const;
  /// Bytes that the rows of a group take while they are made, at most.
  std::size_t most_bytes(Index group) const;
  struct Rows {
    std::vector<Index> starts, columns;  // columns of each row ascending
    std::vector<double> values;
  };
  Rows rows(Index group);

 private:
  std::shared_ptr<const BlockSource> h_;
  std::unique_ptr<BlockMaker> maker_;
  std::vector<Index> first_;                        // rows before each group
  std::vector<std::vector<std::int32_t>> coupled_;  // of each group all others, itself too, ascending
};

}  // namespace flagstone::subspace
