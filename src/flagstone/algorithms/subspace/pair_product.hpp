#pragma once
// One block of H': H_ij is made, and multiplied by both blocks of Z from the cheaper side.
#include <memory>

#include "flagstone/algorithms/subspace/block_source.hpp"
#include "flagstone/algorithms/subspace/runs.hpp"

namespace flagstone::subspace {

/// Keeps the lists of a maker and the memory of a block from one pair to the next. One thread.
class PairProduct {
 public:
  explicit PairProduct(const BlockSource& h) : maker_(h.maker()), estimate_(h.estimate()) {}

  struct Side {
    Index group, rows, columns;
    const std::byte* z;  // rows x columns, C order
  };
  /// Seconds, and nonzeros of H_ij.
  struct Took {
    double making, multiplying;
    Index nonzeros;
  };
  /// to (z_i x z_j, C order) := Zᵢᵀ H_ij Z_j, by way of `product` (d x z of one side). i = j: symmetric to the last
  /// bit.
  Took operator()(const Side& i, const Side& j, bool right, Dtype dtype, std::byte* product, std::byte* to);
  BlockMaker& maker() { return *maker_; }
  /// What the next block is thought to take.
  PairWork work(const Side& i, const Side& j);

 private:
  const Tile& matrix(Tile& tile, const std::byte* data, Index rows, Index cols, Dtype dtype);

  std::unique_ptr<BlockMaker> maker_;
  std::unique_ptr<MakingEstimate> estimate_;
  kernel::SparseBlock block_;
  // Blocks are so small that a new tile for each costs as much as a tenth of it.
  Tile left_{nullptr, Dtype::float32, {0, 0}, {0, 0}}, right_ = left_, result_ = left_;
};

/// What some pairs took here, and were thought to take.
struct Rehearsal {
  PairWork work{.blocks = 0};
  double seconds = 0;
};
/// Makes blocks of H' for about `seconds` on so many threads, which share caches as workers do, and forgets them: whole
/// runs, spread evenly over all, with Z of ones. What plans are told, since how fast H is made nobody else knows.
Rehearsal rehearse(const BlockSource& h, const BlockLayout& z, const Runs& runs, Dtype dtype, double seconds,
                   int workers);

}  // namespace flagstone::subspace
