#include "flagstone/runtime/executor/executor.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "flagstone/base/thread.hpp"
#include "flagstone/runtime/executor/nesting.hpp"
#include "flagstone/runtime/graph/sockets.hpp"

namespace flagstone {
namespace {

/// glibc's aligned allocation (a codec's workspace at every chunk) leaves chips, and while the thread's cache of small
/// blocks has room for them they are not merged again: the next workspace lies beside the last one, seven times. 10 MiB
/// a worker for workspaces of 1.5, measured; still 5 to 15 MiB a run over blosc-zstd chunks of others (lz4, and what is
/// written here, needs none since decision 38). So the cache is full from the start: seven blocks of each small size.
void fill_small_blocks() {
  std::array<void*, 7 * 8> blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = std::malloc(24 + i / 7 * 16);
  for (void* block : blocks) std::free(block);
}

constexpr auto shortest_wait = std::chrono::microseconds(20);  // that a timeline shows

}  // namespace

Executor::Executor(Ring& ring, const RuntimeOptions& options, ScratchSpace scratch, std::uint64_t capacity,
                   const Heartbeat& heartbeat, const std::string& who)
    : RunState(ring, capacity, *this, options),
      ring_(ring),
      transfers_(*this, ring),
      devices_(*this),
      builder_(*this, transfers_, options, std::move(scratch),
               heartbeat ? [this, heartbeat] { heartbeat(statistics()); } : BuilderThread::Heartbeat()) {
  if (timeline) {
    timeline_run = timeline->begin_run(who, options.workers);
    devices_.name_rows();
  }
  for (int i = 0; i < options.workers; ++i)
    threads_.push_back(start_thread([this, i, around = runs_around] {
      runs_around = around;
      work(i);
    }));
  reaper_ = start_thread([this] { transfers_.reap(); });
}

Executor::~Executor() {
  stop();
  if (transfers_.ring_lost()) transfers_.abandon();
  scheduler.release_tiles();  // through the pool, which tells the ring
}

void Executor::run(const std::function<void(Graph&)>& builder) {
  builder_.run(builder);
  {
    Lock lock(mutex);
    end_ = Clock::now();
  }
  stop();
  builder_.check();
}

void Executor::stop() {
  {
    Lock lock(mutex);
    stopping_ = true;
  }
  work_ready.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
  if (reaper_.joinable()) {
    transfers_.stop();
    reaper_.join();
  }
  devices_.wait_until_settled();
}

void Executor::fail(std::exception_ptr first, const std::string& where) {
  if (!error) error = first, failed_in_ = where;
  jobs.clear();
  transfers_.forget_unsent();
  work_ready.notify_all();
  builder_ready.notify_all();
}

void Executor::advance(Lock& lock) {
  pump();
  wake(0);
  transfers_.post(lock);
}

/// After what a worker did: the next thing to do is its own, unless it has requests to submit first.
void Executor::advance_and_go_on(Lock& lock) {
  pump();
  wake(transfers_.unsent() ? 0 : 1);
  transfers_.post(lock);
}

void Executor::pump() {
  if (!error) try {
      scheduler.pump();
      devices_.launch_what_can_run();
    } catch (...) {
      fail(std::current_exception());
    }
}

/// Wakes those who have something to do, but for `taken` things: to wake a thread that finds nothing takes longer than
/// a small task.
void Executor::wake(std::size_t taken) {
  const std::size_t ready = jobs.size() + scheduler.runnable();
  if (scheduler.bound_to_sockets())  // whoever hears of one may be of another socket
    work_ready.notify_all();
  else
    for (std::size_t i = taken; i < std::min(ready, taken + static_cast<std::size_t>(idle)); ++i)
      work_ready.notify_one();
  if (!builder_waits_for || builder_waits_for()) builder_ready.notify_all();
}

// ---- workers ------------------------------------------------------------------------------------------------------

void Executor::work(int worker) {
  inside_worker = true;
  row = worker;
  fill_small_blocks();
  const auto sockets = builder_.sockets();
  const int socket = sockets.empty() ? -1 : worker % static_cast<int>(sockets.size());
  if (socket >= 0) bind_to(sockets[static_cast<std::size_t>(socket)]);
  std::vector<Tile> tiles;
  Lock lock(mutex);
  while (!stopping_) {
    if (!jobs.empty()) {
      auto job = std::move(jobs.front());
      jobs.pop_front();
      ++running;
      const auto began = Clock::now();
      lock.unlock();
      std::exception_ptr thrown;
      try {
        job();
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      --running;
      stats.worker_busy_seconds += seconds_between(began, Clock::now());
      if (thrown) fail(thrown);
      advance_and_go_on(lock);
    } else if (TaskState* task = error ? nullptr : scheduler.take(socket)) {
      run_task(lock, *task, tiles);
    } else {
      ++idle;
      const auto began = Clock::now();
      work_ready.wait(lock);
      --idle;
      if (timeline && Clock::now() - began > shortest_wait)
        timeline->span(timeline_run, row, "wait", "wait", began, Clock::now());
    }
  }
}

void Executor::run_task(Lock& lock, TaskState& task, std::vector<Tile>& tiles) {
  ++running;
  lock.unlock();
  std::exception_ptr thrown;
  const auto began = Clock::now();
  std::optional<Clock::time_point> called;  // when a body began
  try {
    tiles_of(task, tiles);
    for (const Call& call : task.spec.calls) host_kernels().run(call, tiles);
    if (task.spec.body) {
      if (!task.spec.calls.empty()) called = Clock::now();
      task.spec.body(tiles);
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  const auto ended = Clock::now();
  const double seconds = seconds_between(began, ended);
  if (timeline) timeline->span(timeline_run, row, "task", task.spec.name, began, ended, region_of(task));
  lock.lock();
  --running;
  stats.worker_busy_seconds += seconds;
  if (thrown) {
    fail(thrown, note_of(task));
  } else if (!error)
    try {
      stats.flops += task.spec.cost.flops;
      stats.count(task.spec.calls, seconds_between(began, called.value_or(ended)));
      scheduler.finished(task);  // may write a tile behind: a full disk, a read-only file
    } catch (...) {
      fail(std::current_exception());
    }
  advance_and_go_on(lock);
}

// ---- memory -------------------------------------------------------------------------------------------------------

void Executor::allocate(TileState& tile) {
  tile.buffer = take_buffer(tile.buffer_bytes, true);
  tell_memory();
}

void Executor::release(TileState& tile) {
  if (!tile.buffer) return;
  if (timeline)
    timeline->mark(timeline_run, Timeline::first_ring_row, "evict", "evict", about(tile), tile.buffer_bytes);
  pool.put(std::exchange(tile.buffer, {}));
  tell_memory();
}

void Executor::tell_memory() {
  if (timeline) timeline->memory(timeline_run, scheduler.cache().used(), scheduler.cache().capacity());
}

void Executor::allocate_scratch(TaskState& task) {
  for (const Access& access : task.spec.accesses)
    if (access.mode == Mode::scratch)
      task.scratch.push_back(task.spec.socket < 0 ? take_buffer(access.scratch_bytes, false)
                                                  : take_untouched(access.scratch_bytes));
}

void Executor::release_scratch(TaskState& task) {
  for (PooledBuffer& buffer : task.scratch) pool.put(std::move(buffer));
  task.scratch.clear();
}

Statistics Executor::statistics() {
  Lock lock(mutex);
  Statistics now = stats;
  now.seconds = seconds_between(start_, end_ == Clock::time_point{} ? Clock::now() : end_);
  now.worker_idle_seconds = now.seconds * builder_.workers() - now.worker_busy_seconds;
  now.ring_busy_seconds += transfers_.busy_seconds();
  now.ring_idle_seconds = now.seconds - now.ring_busy_seconds;
  now.budget = scheduler.cache().capacity();
  now.peak_budget = scheduler.cache().peak();
  now.io = ring_.describe();
  now.spaces = devices_.statistics(now);
  return now;
}

}  // namespace flagstone
