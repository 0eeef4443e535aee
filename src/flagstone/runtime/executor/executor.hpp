#pragma once
// The real machine: worker threads, one ring, one lock. Events drive everything: a completed load, store or task takes
// the lock, tells the scheduler, and lets it start what has become possible.
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "flagstone/runtime/graph/read_snapshot.hpp"
#include "flagstone/runtime/graph/reduction.hpp"
#include "flagstone/runtime/scheduler/buffer_pool.hpp"
#include "flagstone/runtime/scheduler/running_graph.hpp"
#include "flagstone/runtime/scheduler/scheduler.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {

class Executor final : public RunningGraph, private Machine {
 public:
  using Heartbeat = std::function<void(const Statistics&)>;
  Executor(Ring& ring, const RuntimeOptions& options, std::uint64_t capacity, Heartbeat heartbeat);
  ~Executor() override;

  /// Runs the builder on the calling thread, then writes back, drains and throws the first error.
  void run(const std::function<void(Graph&)>& builder);
  Statistics statistics();
  /// Which task and tile the first error came from ("" when none).
  const std::string& failed_in() const { return failed_in_; }
  /// The ring failed with requests in its queues, which may still complete: it must not serve another run.
  bool ring_lost() const { return ring_lost_; }

  TaskId add(TaskSpec task) override;
  void await(std::vector<Access> accesses, const std::function<void(std::span<const Tile>)>& body) override;
  void barrier() override;
  void drain() override;
  Array allocate(const Shape& shape, Dtype dtype) override;
  Charge charge(std::uint64_t bytes) override;
  bool planning() const override { return false; }
  std::uint64_t budget() const override;
  void host_work(const std::string&, Cost cost) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;
  static double seconds_between(Clock::time_point a, Clock::time_point b) {
    return std::chrono::duration<double>(b - a).count();
  }
  /// One load or store under way.
  struct Flight {
    TileState* tile = nullptr;
    Transfer transfer;
    PooledBuffer staging;
    bool write = false;
    std::size_t left = 0;  // segments under way
    std::uint64_t id = 0;
  };

  void allocate(TileState& tile) override;
  void release(TileState& tile) override;
  void allocate_scratch(TaskState& task) override;
  void release_scratch(TaskState& task) override;
  Transfer transfer_to_store(TileState& tile) override { return tile.array.store().write(tile.box); }
  void load(TileState& tile, Transfer transfer) override;
  void store(TileState& tile, Transfer transfer) override;

  TaskId add_one(Lock& lock, TaskSpec task, bool host);
  void work();
  void reap();
  static void tiles_of(const TaskState& task, std::vector<Tile>& tiles);
  void run_task(Lock& lock, TaskState& task, std::vector<Tile>& tiles);
  void send(Flight& flight);
  void landed(Flight& flight);
  void complete(Lock& lock, const Completion& completion);
  void advance(Lock& lock);
  void post(Lock& lock);
  void lose_ring(std::exception_ptr error);
  void fail(std::exception_ptr error, const std::string& where = {});
  void count_requests(std::ptrdiff_t change);
  bool settled() const;
  void throw_if_failed();
  template <class Ready>
  void wait_until(Lock& lock, Ready ready);
  void stop();
  PooledBuffer take_buffer(std::size_t bytes, bool for_io);

  Ring& ring_;
  BufferPool pool_;
  Heartbeat heartbeat_;
  mutable std::mutex mutex_;
  std::condition_variable work_ready_, builder_ready_;
  Scheduler scheduler_;
  Reduction reduction_;
  bool stopping_ = false, ring_lost_ = false;
  std::exception_ptr error_;
  std::string failed_in_;
  int running_ = 0;                         // tasks and conversions on workers
  std::ptrdiff_t requests_out_ = 0;         // submitted or in the outbox
  std::deque<std::function<void()>> jobs_;  // conversions: before any task
  std::vector<Request> outbox_;             // decided under the lock, submitted outside
  std::unordered_map<std::uint64_t, std::unique_ptr<Flight>> flights_;
  std::uint64_t next_flight_ = 1;
  Moments moments_;
  inline static thread_local bool inside_worker_ = false;
  Statistics stats_;
  Clock::time_point start_ = Clock::now(), busy_since_{}, end_{};
  std::vector<std::thread> threads_;
  std::thread reaper_;
};

}  // namespace flagstone
