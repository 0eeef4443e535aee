#pragma once
// The builder's thread of a run, as the graph that it adds to.
#include <functional>

#include "flagstone/runtime/executor/run_state.hpp"
#include "flagstone/runtime/executor/transfers.hpp"
#include "flagstone/runtime/graph/read_snapshot.hpp"
#include "flagstone/runtime/graph/reduction.hpp"
#include "flagstone/runtime/scheduler/running_graph.hpp"

namespace flagstone {

/// Adds tasks, waits for what it asked for, and drains the run. Running tasks may add(), too; nothing else.
class BuilderThread final : public RunningGraph {
 public:
  /// About ten times a second while it waits, without the lock; what it throws ends the run.
  using Heartbeat = std::function<void()>;
  BuilderThread(RunState& run, const TransferQueue& transfers, const RuntimeOptions& options, ScratchSpace scratch,
                Heartbeat heartbeat);

  /// Runs the builder on the calling thread and drains; after an error it waits until nothing runs or flies.
  void run(const std::function<void(Graph&)>& builder);
  /// Throws what ended the run; StorageError where what it read is of two moments.
  void check() const;

  TaskId add(TaskSpec task) override;
  void await(std::vector<Access> accesses, const std::function<void(std::span<const Tile>)>& body) override;
  void barrier() override;
  void drain() override { write_all(false); }
  void distribute(const Array& array, const Distribution& distribution) override;
  Array allocate(const Shape& shape, Dtype dtype) override;
  Charge charge(std::uint64_t bytes) override;
  bool planning() const override { return false; }
  std::uint64_t budget() const override;
  void host_work(const std::string&, Cost cost) override;

 private:
  using Lock = RunState::Lock;
  using Clock = RunState::Clock;
  TaskId add_one(Lock& lock, TaskSpec task, bool host);
  void ask_place(Lock& lock, const TaskSpec& task) const;
  void write_all(bool end);
  bool settled() const;
  /// `changes`: to look at what is waited for changes it, which is the builder's alone.
  template <class Ready>
  void wait_until(Lock& lock, Ready ready, bool changes = false);

  RunState& run_;
  const TransferQueue& transfers_;
  Heartbeat heartbeat_;
  Reduction reduction_;
  ReadSnapshot snapshot_;
};

/// The tiles of a task's accesses, into `tiles`, whose memory is used again. Without the lock: what a pinned tile is
/// does not change.
void tiles_of(const TaskState& task, std::vector<Tile>& tiles);

}  // namespace flagstone
