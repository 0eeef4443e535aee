#pragma once
// A sparse symmetric matrix in blocks of groups of rows, made where it is needed.
#include <memory>
#include <span>
#include <vector>

#include "flagstone/kernel/sparse/sparse_block.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::subspace {

/// Makes blocks, one after the other, on one thread.
class BlockMaker {
 public:
  virtual ~BlockMaker() = default;
  /// What `BlockSource::regions` of these groups names lies in memory from now on.
  virtual void load(Index first_group, std::span<const Tile> tiles) {
    static_cast<void>(first_group), static_cast<void>(tiles);
  }
  /// H_ij, rows of group i times rows of group j.
  virtual void make(Index i, Index j, kernel::SparseBlock& to) = 0;
};

/// What making a block is thought to take.
struct Making {
  Index nonzeros = 0;  // a bound of its stored values
  Index searches = 0;  // for those of its rows
  Index lists = 0;     // that have to be made first, of what several blocks share
  Index listed = 0;    // entries of those
};
/// Says it of blocks in the order in which one maker makes them.
class MakingEstimate {
 public:
  virtual ~MakingEstimate() = default;
  virtual Making of(Index i, Index j) = 0;
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
  /// What of H lies in arrays: those parts that the rows of groups [first, last) are made of.
  virtual std::vector<Region> regions(Index first, Index last) const {
    static_cast<void>(first), static_cast<void>(last);
    return {};
  }
  /// Groups between which a task makes its blocks, where the arrays of a whole stripe would take too much memory:
  /// from `first` to `last`.
  virtual std::vector<Index> cuts(Index first, Index last) const { return {first, last}; }
  /// Bytes that making it takes, the block itself among them.
  virtual std::size_t workspace_bytes(Index i, Index j) const = 0;
  virtual std::unique_ptr<BlockMaker> maker() const = 0;
  virtual std::unique_ptr<MakingEstimate> estimate() const { return std::make_unique<ByValues>(*this); }
  /// Needs neither arrays nor anybody's function: plans may make some blocks to see how long it takes.
  virtual bool on_its_own() const { return false; }

 private:
  /// Nothing is listed.
  struct ByValues final : MakingEstimate {
    explicit ByValues(const BlockSource& of_h) : h(of_h) {}
    Making of(Index i, Index j) override { return {h.most_nonzeros(i, j)}; }
    const BlockSource& h;
  };
};

}  // namespace flagstone::subspace
