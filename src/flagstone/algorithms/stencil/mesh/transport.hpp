#pragma once
// How elements get from one rank's sub-buffer into another's.
#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

/// One box that travels: `taken` of the sender's array, `placed` in the receiver's, alike long.
struct Parcel {
  Index from = 0, to = 0;  // ranks
  Region taken, placed;
};

/// What a schedule of supersteps knows of the way between ranks: no algorithm names it.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Sends as soon as what is taken is there; what is placed may be read after barrier().
  virtual void send(const Parcel& parcel) = 0;
  /// Until all ranks are here and everything that was sent has arrived.
  virtual void barrier() = 0;
};

/// Ranks of one process: a parcel is a task that copies.
class Copies final : public Transport {
 public:
  Copies(Graph& graph, std::shared_ptr<const Problem> problem) : graph_(graph), problem_(std::move(problem)) {}
  void send(const Parcel& parcel) override;
  void barrier() override { graph_.drain(); }

 private:
  Graph& graph_;
  std::shared_ptr<const Problem> problem_;
};

}  // namespace flagstone::stencil
