#pragma once
// Which tiles of an output are finished: the progress of operations that can be resumed.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone {

/// A map of tiles, saved as the part "tiles" of a checkpoint. The grid must be a function of what decides the bits, not
/// of the memory limit: a resumed run may have another one. Without a checkpoint, and in planned runs, nothing is
/// finished and nothing is noted. The builder's thread only. Charges two bytes a tile: make it before graph.budget() is
/// asked.
class FinishedTiles {
 public:
  /// Takes over what a dead process noted and `out` still holds. `name`: of the part.
  FinishedTiles(Graph& graph, std::shared_ptr<Checkpoint> checkpoint, const Array& out, const Shape& tile,
                std::string name = "tiles");

  /// These are of the second half of the work: what is noted from now on tells of `first` and of `beside` too.
  void follow(FinishedTiles& first, std::vector<Checkpoint::Part> beside) {
    first_ = &first;
    beside_ = std::move(beside);
  }

  /// Whether all tiles under a box are finished.
  bool holds(const Box& box) const;
  /// The tasks that write the box are added, and nobody will write it again.
  void finish(const Box& box);
  /// Where a checkpoint is due: waits until everything added so far is computed and written, syncs it and notes it.
  /// Call it where nothing of the output is half computed.
  void offer();
  /// Notes something half computed beside what the last note said; `more`: what that is of all the work.
  void note(double more, std::vector<Checkpoint::Part> beside);
  /// Whether tiles were finished since the last note.
  bool unnoted() const { return finished_ != noted_; }
  /// Null where nothing is noted.
  Checkpoint* checkpoint() const { return checkpoint_.get(); }

 private:
  template <class F>
  void each(const Box& box, F&& f) const;
  /// Everything finished is durable now.
  void settle();
  /// Of all tiles, as noted.
  double done() const;

  Graph& graph_;
  std::shared_ptr<Checkpoint> checkpoint_;
  Array out_;
  Shape tile_;
  std::string name_;
  Charge charge_;
  std::vector<std::uint8_t> finished_, noted_;  // one a tile
  FinishedTiles* first_ = nullptr;
  std::vector<Checkpoint::Part> beside_;
};

}  // namespace flagstone
