#pragma once
// A task between add() and its end, and who carries out what is decided about it.
#include <memory>
#include <vector>

#include "flagstone/runtime/graph/place.hpp"
#include "flagstone/runtime/scheduler/cache.hpp"
#include "flagstone/runtime/spaces/device.hpp"

namespace flagstone {

struct TaskState {
  enum class Phase : std::uint8_t { waiting, admitted, running, done };
  struct Held {
    TileState* tile;
    bool reads, modifies, last, again, once;
    bool bounce = false;  // holds the host's copy too, which its device's comes from
  };

  TaskId id = 0;
  TaskSpec spec;
  std::vector<TileState*> operands;  // one per access, null for scratch
  std::vector<Held> held;            // each tile once, its modes joined
  std::size_t scratch_bytes = 0;
  std::vector<PooledBuffer> scratch;  // one per scratch access; the machine fills them
  Phase phase = Phase::waiting;
  bool host = false;                // runs on the builder's thread
  int space = 0;                    // where it runs: the host, or the device of this number
  bool trusted = false;             // program order is good (Graph::trust_order)
  int unplanned = 0;                // dependencies that are not admitted yet
  int unmet = 0;                    // dependencies that are not done yet
  int arriving = 0;                 // tiles that are still on their way (loads, stores that block a writer)
  std::size_t workspace_bytes = 0;  // of a device, with its scratch in front
  std::uint64_t workspace_offset = 0;
  std::vector<TaskState*> successors;
};

/// Carries decisions out. Called with the lock held; must not call back into the scheduler from these functions.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual void allocate(TileState& tile) = 0;  // give it a zeroed or recycled buffer
  virtual void release(TileState& tile) = 0;   // take the buffer back
  virtual void allocate_scratch(TaskState& task) = 0;
  virtual void release_scratch(TaskState& task) = 0;
  virtual Transfer transfer_to_store(TileState& tile) = 0;     // a plan's must not touch what is stored
  virtual void load(TileState& tile, Transfer transfer) = 0;   // then Scheduler::loaded
  virtual void store(TileState& tile, Transfer transfer) = 0;  // then Scheduler::stored
  // Between the host and a device (its space from 1 on): asked for where a run has devices, then copied_in, copied_out.
  virtual void copy_in(TileState& /*tile*/, int /*space*/) {}
  virtual void copy_out(TileState& /*tile*/, int /*space*/) {}
};

/// The memories beside the host's.
struct Spaces {
  std::vector<std::shared_ptr<Device>> devices = {};
  Place place = {};         // none: columns of tiles, cyclic
  bool strict = false;      // refuses what a device cannot run
  bool unlimited = false;   // devices without end: for who asks for the least
  std::size_t sockets = 0;  // of the host, whose workers run what names them
};

/// Higher priority first, then program order.
struct InOrder {
  bool operator()(const TaskState* a, const TaskState* b) const {
    if (a->spec.priority != b->spec.priority) return a->spec.priority > b->spec.priority;
    return a->id < b->id;
  }
};

}  // namespace flagstone
