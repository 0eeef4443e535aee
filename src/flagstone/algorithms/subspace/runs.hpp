#pragma once
// H' on disk: for each pair of stripes that couple one run of whole pages with its blocks.
#include <vector>

#include "flagstone/algorithms/subspace/block_basis.hpp"
#include "flagstone/algorithms/subspace/block_source.hpp"

namespace flagstone::subspace {

/// What a block H'_ij = Zᵢᵀ(H_ij Z_j) takes, from the cheaper side: estimated before H_ij is made.
struct PairWork {
  double nonzeros = 0;  // a bound of those of H_ij
  double searches = 0;  // of its rows
  double lists = 0;     // that making it needs first
  double listed = 0;    // their entries
  double sparse = 0;    // multiply-adds of H_ij with one side
  double dense = 0;     // and of the product with the other one
  double rows = 0;      // of both groups
  double blocks = 1;
  bool right = true;  // H_ij Z_j first

  PairWork& operator+=(const PairWork& other) {
    nonzeros += other.nonzeros, searches += other.searches;
    lists += other.lists, listed += other.listed;
    sparse += other.sparse, dense += other.dense;
    rows += other.rows, blocks += other.blocks;
    return *this;
  }
  /// Bytes that are copied in the time that it takes, beside `flops`.
  double bytes_touched() const;
  double flops() const { return 2 * (sparse + dense); }
};
PairWork pair_work(const Making& making, Index rows_i, Index z_i, Index rows_j, Index z_j);

/// One pair of stripes I >= J: its blocks in order of (j, i), each z_i x z_j in C order.
struct Run {
  std::int32_t row = 0, col = 0;  // I, J
  Index first = 0, length = 0;    // elements of `values`, whole pages
  Index blocks = 0, count = 0;    // of the list of blocks
  PairWork work{.blocks = 0};     // estimated, of all its blocks
  std::size_t scratch = 0;        // bytes of the product with one side
};

/// A block: its groups, counted from the first ones of their stripes.
struct BlockPlace {
  std::uint16_t i, j;
};

/// Runs begin and end where chunks do: smaller ones cost memory for the places of their chunks, larger ones padding.
inline constexpr Index run_chunk_bytes = 16384;

struct Runs {
  std::vector<Run> runs;  // by J, then I
  std::vector<BlockPlace> places;
  Index length = 0;           // elements
  std::size_t workspace = 0;  // bytes that the most demanding block takes to make
  Index nonzeros = 0;         // of H', in its lower triangle
};

/// Which blocks there are and where they lie: a function of Z's shapes and H's pattern.
Runs runs_of(const BlockSource& h, const BlockLayout& z, std::size_t item);

}  // namespace flagstone::subspace
