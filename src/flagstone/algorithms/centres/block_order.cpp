#include "flagstone/algorithms/centres/block_order.hpp"

#include <algorithm>

namespace flagstone::centres {
namespace {

/// How many of `all` fit: one at least.
Index that_fit(double room, double each, Index all) {
  return std::clamp<Index>(static_cast<Index>(std::max(0.0, room) / each), 1, all);
}

}  // namespace

BlockOrder choose_order(const BlockSizes& sizes) {
  const double all_blocks = sizes.block * static_cast<double>(sizes.blocks);
  BlockOrder best;
  const auto consider = [&](bool points_stay, Index fused) {
    const double room = sizes.room - static_cast<double>(fused) * sizes.sums_block;
    const double each = points_stay ? sizes.panel : sizes.block;
    if (fused > 0 && room < each) return;
    BlockOrder order{.points_stay = points_stay, .fused = fused};
    order.stay = that_fit(room, each, points_stay ? sizes.panels : sizes.blocks);
    order.group = that_fit(sizes.room, sizes.sums_block, sizes.blocks);
    const Index rounds = ceil_div(points_stay ? sizes.panels : sizes.blocks, order.stay);
    const Index groups = sizes.sums ? ceil_div(sizes.blocks - fused, order.group) : 0;
    order.point_reads = (points_stay ? 1 : rounds) + groups;
    const auto again = static_cast<double>(rounds);
    order.bytes = points_stay ? sizes.points + all_blocks * again
                              : sizes.points * again + 2 * sizes.state * (again - 1) + all_blocks;
    order.bytes += (sizes.points + sizes.state) * static_cast<double>(groups);
    if (best.bytes == 0 || order.bytes < best.bytes) best = order;
  };
  const Index most = sizes.sums ? std::min(sizes.blocks, static_cast<Index>(sizes.room / sizes.sums_block)) : 0;
  for (Index fused = std::max<Index>(0, most); fused >= 0; --fused)
    for (const bool points_stay : {false, true}) consider(points_stay, fused);
  return best;
}

std::string told(const BlockOrder& order, const BlockSizes& sizes) {
  const std::string stay = std::to_string(order.stay) + " of ",
                    blocks = std::to_string(sizes.blocks) + " blocks of centers";
  const std::string which =
      order.points_stay ? stay + std::to_string(sizes.panels) + " panels of X stay while " + blocks + " stream past"
                        : stay + blocks + " stay while X streams past";
  if (!sizes.sums || order.fused == sizes.blocks) return which;
  return which + ", sums of " + std::to_string(order.group) + " at a time";
}

}  // namespace flagstone::centres
