#pragma once
// What the threads of one run share: its builder, its workers and the one that hears of finished requests.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "flagstone/runtime/graph/options.hpp"
#include "flagstone/runtime/graph/statistics.hpp"
#include "flagstone/runtime/scheduler/buffer_pool.hpp"
#include "flagstone/runtime/scheduler/scheduler.hpp"
#include "flagstone/runtime/timeline/timeline.hpp"

namespace flagstone {

/// One lock covers all of it. The Executor is one; its parts see no more of it than this.
class RunState {
 public:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;
  static double seconds_between(Clock::time_point a, Clock::time_point b) {
    return std::chrono::duration<double>(b - a).count();
  }

  // All with the lock held.
  /// Lets the scheduler start what it can; must be called after every event. Errors of planning end the run. Gives the
  /// lock back for a while where requests are to be submitted.
  virtual void advance(Lock& lock) = 0;
  /// Ends the run; `where`: the task and tile. The first error is the run's.
  virtual void fail(std::exception_ptr error, const std::string& where = {}) = 0;
  void throw_if_failed() const {
    if (error) std::rethrow_exception(error);
  }
  /// Scheduler charges come first, so `used` holds the buffer that is about to be taken.
  PooledBuffer take_buffer(std::size_t bytes, bool for_io) {
    const Cache& cache = scheduler.cache();
    if (!pool.holds(bytes)) pool.trim(cache.used(), cache.peak());
    return pool.take(bytes, for_io);
  }
  /// The same, and no page of it is there: whoever touches one first has it in the memory of its socket.
  PooledBuffer take_untouched(std::size_t bytes) {
    PooledBuffer taken = take_buffer(bytes, false);
    pool.forget_pages(taken);
    return taken;
  }

  std::mutex mutex;
  std::condition_variable work_ready, builder_ready;
  BufferPool pool;
  Scheduler scheduler;
  std::deque<std::function<void()>> jobs;  // conversions: before any task
  int running = 0;                         // tasks and conversions on workers, bodies on the builder's thread
  int on_devices = 0;                      // copies and launches that a device has not reported yet
  int idle = 0;                            // workers that wait for something to do
  /// What the builder waits for, where looking changes nothing: it is woken when that is so. Else at every event.
  std::function<bool()> builder_waits_for;
  std::exception_ptr error;
  Statistics stats;
  const std::shared_ptr<Timeline> timeline = Timeline::active();  // null: nobody looks
  int timeline_run = 0;
  /// This thread's row of the timeline; none: it is no worker.
  inline static thread_local int row = -1;
  /// The calling thread is a worker of some run: it must not wait for tasks.
  inline static thread_local bool inside_worker = false;

 protected:
  RunState(Ring& ring, std::uint64_t capacity, Machine& machine, const RuntimeOptions& options)
      : pool(ring, options.devices),
        scheduler(
            capacity, machine, options.workers,
            {options.devices, options.place, options.strict, false, options.sockets ? options.sockets->size() : 0}) {}
  ~RunState() = default;
};

}  // namespace flagstone
