#pragma once
// In which order panels of points meet blocks of centres: what stays in memory while the other streams past.
#include <string>

#include "flagstone/base/shape.hpp"

namespace flagstone::centres {

/// Bytes, but for the numbers of panels and blocks.
struct BlockSizes {
  double points = 0, panel = 0;  // all points; one panel of them and its state
  double state = 0;              // of all points
  Index panels = 0;
  double block = 0;       // of centres, with what is rounded of it
  double sums_block = 0;  // its sums, with the partial ones
  Index blocks = 0;
  double room = 0;    // for what stays
  bool sums = false;  // wanted
};

/// A pass: points are assigned to all blocks, and `fused` blocks of sums are added while the panels are there; then
/// come reads of the points for `group` blocks of sums each.
struct BlockOrder {
  bool points_stay = false;  // panels stay while blocks stream past; else the other way
  Index stay = 1;            // how many of them
  Index fused = 0, group = 1;
  Index point_reads = 1;
  double bytes = 0;  // read and written
};

/// That which moves the fewest bytes:
///   blocks stay   points ⌈blocks / stay⌉ + 2 state (⌈blocks / stay⌉ - 1) + all blocks
///   points stay   points + all blocks ⌈panels / stay⌉
/// with stay = (room - fused sums) / (a block, or a panel), and for sums (points + state) ⌈(blocks - fused) / group⌉,
/// group = room / the sums of a block.
BlockOrder choose_order(const BlockSizes& sizes);
/// What stays and what streams past, for plans.
std::string told(const BlockOrder& order, const BlockSizes& sizes);

}  // namespace flagstone::centres
