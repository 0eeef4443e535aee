#pragma once
// Loads and stores under way: the ring's outbox and its completions.
#include <memory>
#include <unordered_map>
#include <vector>

#include "flagstone/runtime/executor/run_state.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {

/// "a.npy 512 x 512 at 0 x 1024": what a tile is of, for a timeline.
std::string about(const TileState& tile);
/// "tile 16 x 16 at 32 x 0": the region that a task is about, its output; "" where it has none.
std::string region_of(const TaskState& task);
/// "in task 'gemm' (tile 16 x 16 at 32 x 0)": for who hears of its failure.
std::string note_of(const TaskState& task);

/// Between the scheduler's decisions and the ring. What has to be decoded or encoded becomes a job for the workers; the
/// scheduler hears of every tile that has arrived or left.
class TransferQueue {
 public:
  using Lock = RunState::Lock;
  TransferQueue(RunState& run, Ring& ring) : run_(run), ring_(ring) {}
  TransferQueue(const TransferQueue&) = delete;

  // With the lock held.
  void load(TileState& tile, Transfer transfer);
  void store(TileState& tile, Transfer transfer);
  /// Submits what was decided, without the lock meanwhile.
  void post(Lock& lock);
  /// The run failed: what was not submitted will not be.
  void forget_unsent();
  /// No request is out of which anything will be heard.
  bool settled() const { return requests_out_ == 0 || ring_lost_; }
  /// Something is to be submitted.
  bool unsent() const { return !outbox_.empty(); }
  /// The ring failed with requests in its queues, which may still complete: it must not serve another run.
  bool ring_lost() const { return ring_lost_; }
  /// Seconds that the ring was busy until now, beside those in the statistics.
  double busy_seconds() const;

  /// A thread of its own: hears of finished requests, until the run is over.
  void reap();
  /// Ends reap() once nothing is out.
  void stop();
  /// What a lost ring may still write into stays mapped for good: rather lost than used by somebody else.
  void abandon();

 private:
  using Clock = RunState::Clock;
  /// One load or store under way.
  struct Flight {
    TileState* tile = nullptr;
    Transfer transfer;
    PooledBuffer staging;
    bool write = false;
    std::size_t left = 0;  // segments under way
    std::uint64_t id = 0;
    int row = -1;  // of the timeline, where there is one
    Clock::time_point began{}, arrived{};
  };
  Flight& begin(TileState& tile, Transfer transfer, bool write);
  void send(Flight& flight);
  void landed(Flight& flight);
  void complete(Lock& lock, const Completion& completion);
  void lose_ring(std::exception_ptr error);
  void tell(const Flight& flight);
  void count_requests(std::ptrdiff_t change);

  RunState& run_;
  Ring& ring_;
  std::vector<bool> rows_;  // of the timeline: taken
  bool stopping_ = false, ring_lost_ = false;
  std::ptrdiff_t requests_out_ = 0;  // submitted or in the outbox
  std::vector<Request> outbox_;      // decided under the lock, submitted outside
  std::unordered_map<std::uint64_t, std::unique_ptr<Flight>> flights_;
  std::uint64_t next_flight_ = 1;
  Clock::time_point busy_since_{};
};

}  // namespace flagstone
