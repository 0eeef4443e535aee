#pragma once
// The real machine: worker threads, one ring, one lock. Events drive everything: a completed load, store or task takes
// the lock, tells the scheduler, and lets it start what has become possible.
#include <thread>

#include "flagstone/runtime/executor/builder.hpp"
#include "flagstone/runtime/executor/device_queues.hpp"
#include "flagstone/runtime/executor/run_state.hpp"
#include "flagstone/runtime/executor/transfers.hpp"

namespace flagstone {

/// Workers and memory of one run; TransferQueue moves its tiles, BuilderThread is its graph.
class Executor final : private RunState, private Machine {
 public:
  using Heartbeat = std::function<void(const Statistics&)>;
  Executor(Ring& ring, const RuntimeOptions& options, ScratchSpace scratch, std::uint64_t capacity,
           const Heartbeat& heartbeat, const std::string& who = {});
  ~Executor() override;

  /// Runs the builder on the calling thread, then writes back, drains and throws the first error.
  void run(const std::function<void(Graph&)>& builder);
  Statistics statistics();
  /// Which task and tile the first error came from ("" when none).
  const std::string& failed_in() const { return failed_in_; }
  /// The ring failed with requests in its queues, which may still complete: it must not serve another run.
  bool ring_lost() const { return transfers_.ring_lost(); }

 private:
  void advance(Lock& lock) override;
  void fail(std::exception_ptr first, const std::string& where = {}) override;

  void allocate(TileState& tile) override;
  void release(TileState& tile) override;
  void allocate_scratch(TaskState& task) override;
  void release_scratch(TaskState& task) override;
  Transfer transfer_to_store(TileState& tile) override { return tile.array.store().write(tile.box); }
  void load(TileState& tile, Transfer transfer) override { transfers_.load(tile, std::move(transfer)); }
  void store(TileState& tile, Transfer transfer) override { transfers_.store(tile, std::move(transfer)); }

  void copy_in(TileState& tile, int space) override { devices_.copy_in(tile, space); }
  void copy_out(TileState& tile, int space) override { devices_.copy_out(tile, space); }

  void advance_and_go_on(Lock& lock);
  void pump();
  void wake(std::size_t taken);
  void work(int row);
  void tell_memory();
  void run_task(Lock& lock, TaskState& task, std::vector<Tile>& tiles);
  void stop();

  Ring& ring_;
  TransferQueue transfers_;
  DeviceQueues devices_;
  BuilderThread builder_;
  bool stopping_ = false;
  std::string failed_in_;
  Clock::time_point start_ = Clock::now(), end_{};
  std::vector<std::thread> threads_;
  std::thread reaper_;
};

}  // namespace flagstone
