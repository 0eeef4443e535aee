#pragma once
// Which tiles of an output are finished: the progress of operations that can be resumed.
#include <cstdint>
#include <string>
#include <vector>

#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone {

/// A map of tiles that are written once. The grid must be a function of what decides the bits, not of the memory limit:
/// a resumed run may have another one. Where nothing is saved nothing is finished. Charges two bytes a tile: make it
/// before graph.budget() is asked.
class FinishedTiles {
 public:
  /// Takes over what a dead process noted and `out` still holds. `name`: of the map in a save.
  FinishedTiles(Stages& stages, const Array& out, const Shape& tile, const std::string& name = "tiles");
  ~FinishedTiles();
  FinishedTiles(const FinishedTiles&) = delete;

  /// Whether all tiles under a box are finished.
  bool holds(const Box& box) const;
  /// The tasks that write the box are added, and nobody will write it again.
  void finish(const Box& box);
  /// Where a checkpoint is due, it is saved (Stages::offer). Call it where nothing of the output is half computed.
  void offer();
  /// Whether tiles were finished since the last save.
  bool unnoted() const { return finished_ != noted_; }

 private:
  friend class Stages;
  template <class F>
  void each(const Box& box, F&& f) const;
  /// Everything finished is durable now.
  void settle();
  /// Of all tiles, as noted.
  double done() const;

  Stages& stages_;
  Array out_;
  Shape tile_;
  std::string name_;
  Charge charge_;
  std::vector<std::uint8_t> finished_, noted_;  // one a tile
};

}  // namespace flagstone
