#pragma once
// Where the content of one tile is, of all memories.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone {

struct TileState;

/// One tile's copy in the memory of one device.
struct Copy {
  enum class State : std::uint8_t {
    invalid,
    empty,     // has memory: its content is yet to be copied, or made here
    arriving,  // is being copied from the host
    valid,     // the tile as it is now
  };
  State state = State::invalid;
  bool leaving = false;   // is being copied to the host: readers may look, a writer waits; the newest, or as the disk
  bool evicting = false;  // and its memory is free then
  int pins = 0;           // admitted tasks that use it here
  std::uint64_t offset = 0;
  TileState* tile = nullptr;
  // Place in its device's order of eviction.
  bool queued = false, queued_dirty = false;
  std::uint64_t queued_at = 0, queued_as = 0;
};

/// All copies of a tile beside the host's, whose own state lies in TileState. Of the states M, O and S of the protocol:
/// `newest` names the one copy that is M (the others are then not valid, the host's and the disk's are old); the host's
/// is M or O while it is dirty; every other valid one is S. What is copied out makes the host's the O, the device's an
/// S: who is responsible for the disk is always the copy that is nearest to it.
struct Copies {
  std::vector<Copy> on;     // by device
  int newest = 0;           // the space of the copy that host and disk are behind; 0: none is
  int flights = 0;          // copies between host and devices under way
  bool loading = false;     // from the disk to the host
  bool changing = false;    // a task that changes it may run now
  bool homeward = false;    // waits for room on the host to be copied out
  bool store_home = false;  // what is copied out is written though nobody ends it (a checkpoint)
  Shape strides;            // in a device's memory: packed, dimensions in the host's order
  std::size_t bytes = 0;    // there

  Copy& at(int space) { return on[static_cast<std::size_t>(space) - 1]; }
  const Copy& at(int space) const { return on[static_cast<std::size_t>(space) - 1]; }
  bool any() const {
    for (const Copy& copy : on)
      if (copy.state != Copy::State::invalid) return true;
    return false;
  }
};

/// Strides of the packed tile whose dimensions follow one another in memory as in one with these strides.
Shape packed_like(const Shape& strides, const Shape& extents, std::size_t item);

}  // namespace flagstone
