#pragma once
// Order statistics of many lanes at once, exactly: elements become keys whose order as unsigned integers is that of the
// elements, and bins of their leading bits are counted until a bin holds what is looked for alone.
#include <atomic>
#include <memory>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// Bits of a key: those of an element.
int key_bits(Dtype dtype);

/// Which lanes a tile's elements belong to, what is looked for in each, and how far the search is. NaN is the largest
/// key; a lane with one has NaN for every answer.
struct Ranks {
  Dtype dtype = Dtype::float64;
  Shape lane_strides;  // by how many lanes a step along each dimension of the tile goes on; 0: along a lane
  Index lanes = 1;
  std::vector<Index> wanted;  // ranks, from 0, increasing; the same of every lane
  int shift = 0, bits = 0;    // the bins are told by so many bits of the key above `shift`
  bool wide = false;          // counts of 64 bits, for lanes of 2^32 elements and more
  bool first = false;         // nothing was counted before

  Index targets() const { return static_cast<Index>(wanted.size()); }
  Index bins() const { return Index{1} << bits; }
};

/// What is known of all lanes. Words of 8 bytes.
std::size_t rank_state_bytes(Index lanes, Index targets);
/// Of one tile's lanes: in the first pass one histogram a lane, later as many as there are targets.
std::size_t rank_count_bytes(const Ranks& ranks);

/// counts := those plus the tile's keys; `state` is not looked at in the first pass.
void count_keys(const Ranks& ranks, const Tile& values, const std::byte* state, std::byte* counts);
/// Adds up counts (`from` into `to`).
void join_counts(const Ranks& ranks, const std::byte* from, std::byte* to);
/// state := it after these counts.
void choose_bins(const Ranks& ranks, const std::byte* counts, std::byte* state);
/// Elements that lie in the bins that are looked for.
Index candidates(Index lanes, Index targets, const std::byte* state);

/// Keys that lie in the bins that are looked for, lane by lane and bin by bin, in any order.
struct Collected {
  /// Of the lanes of one more state, from place `next` on; returns where those of the next one begin.
  Index add(const Ranks& ranks, const std::byte* state, Index next);
  std::vector<std::vector<Index>> begins;                      // of each state: of bin g of lane l at l * targets + g
  std::vector<std::unique_ptr<std::atomic<Index>[]>> cursors;  // as many
  std::byte* keys = nullptr;                                   // of 8 bytes each
};
void collect_keys(const Ranks& ranks, const Tile& values, const std::byte* state, Collected& to, std::size_t which);
/// The answers of these lanes, from what was collected.
void select_collected(const Ranks& ranks, std::byte* state, Collected& from, std::size_t which);

/// to[t, ...] := target t of each lane once all bits are known; its other dimensions are the lanes', in C order.
void write_answers(const Ranks& ranks, const std::byte* state, const Tile& to);
/// The same at once, of lanes that lie whole in the tile. `work`: the bytes of its elements.
void select_whole(const Ranks& ranks, const Tile& values, std::byte* work, const Tile& to);

}  // namespace flagstone::kernel
