#pragma once
// A sparse symmetric matrix in blocks of groups of rows, made where it is needed and never stored.
#include <memory>
#include <vector>

#include "flagstone/kernel/sparse/sparse_block.hpp"

namespace flagstone::subspace {

/// Makes blocks, one after the other, on one thread.
class BlockMaker {
 public:
  virtual ~BlockMaker() = default;
  /// H_ij, rows of group i times rows of group j.
  virtual void make(Index i, Index j, kernel::SparseBlock& to) = 0;
};

/// H, as who projects it sees it. All functions may be called from several threads.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual Index groups() const = 0;
  virtual Index rows(Index group) const = 0;
  /// The j <= i, ascending, whose blocks are not zero, of those for which `used`.
  virtual void couplings(Index i, const std::vector<bool>& used, std::vector<std::int32_t>& js) const = 0;
  /// A bound of the stored values of a block: what its work is estimated by.
  virtual Index most_nonzeros(Index i, Index j) const = 0;
  /// Bytes that making it takes, the block itself among them.
  virtual std::size_t workspace_bytes(Index i, Index j) const = 0;
  virtual std::unique_ptr<BlockMaker> maker() const = 0;
};

}  // namespace flagstone::subspace
