#pragma once
// What operands of a pass cost where each task reads its box of them as it lies.
#include <cstdint>
#include <vector>

#include "flagstone/algorithms/elementwise/pass.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::elementwise {

// As algorithms/restructure weighs requests: a constant, never a rate of this machine.
inline constexpr double request_bytes = 100.0 * KiB;
inline constexpr std::uint64_t most_piece = 4 * MiB;  // what is read at once; below it boxes cost nothing to speak of

/// What boxes of one operand cost, altogether.
struct BoxCost {
  double content = 0;        // bytes of all its boxes
  double least = 0;          // what they would cost in one request each
  double cost = 0;           // bytes that are moved or unpacked, with what requests cost
  double bytes = 0;          // that are moved
  std::uint64_t held = 0;    // by one task
  std::uint64_t buffer = 0;  // the part of it that is the tile
  std::size_t run = 0;
  bool fixed = true;  // in memory, small, or broadcast

  /// Whether they cost more than twice their bytes: else they are read as they are.
  bool dear() const { return !fixed && cost > 2 * least; }
};

/// Three tiles of a pass, on which costs are counted: the first, one in the middle, the last whole one.
std::vector<Box> sample_tiles(const Pass& pass, const Shape& tile);
/// `tiles`: how many there are.
BoxCost cost_of_boxes(const Pass& pass, const Operand& operand, const std::vector<Box>& samples, double tiles);
/// Bytes that one task holds beside what it reads: values that are stored, folded, looked at.
std::uint64_t made_by_task(const Pass& pass, const Shape& tile);

}  // namespace flagstone::elementwise
