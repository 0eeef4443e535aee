#include "flagstone/runtime/executor/executor.hpp"

#include <array>
#include <cstdlib>

#include "flagstone/base/error.hpp"
#include "flagstone/base/signals_blocked.hpp"
#include "flagstone/runtime/executor/nesting.hpp"
#include "flagstone/storage/array/requests.hpp"

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

/// " (16 x 16 at 32 x 0)": the region that the task was about, its output.
std::string where(const TaskState& task) {
  for (std::size_t i = task.operands.size(); i-- > 0;)
    if (const TileState* tile = task.operands[i])
      return " (tile " + to_string(tile->box.shape) + " at " + to_string(tile->box.start) + ")";
  return {};
}

}  // namespace

Executor::Executor(Ring& ring, const RuntimeOptions& options, std::uint64_t capacity, Heartbeat heartbeat)
    : RunningGraph(options),
      ring_(ring),
      pool_(ring),
      heartbeat_(std::move(heartbeat)),
      scheduler_(capacity, *this, options.workers),
      reduction_(options.scratch, [this](TaskSpec task) {
        Lock lock(mutex_);
        add_one(lock, std::move(task), false);
      }) {
  const SignalsBlocked blocked;
  for (int i = 0; i < options_.workers; ++i)
    threads_.emplace_back([this, around = runs_around] {
      runs_around = around;
      work();
    });
  reaper_ = std::thread([this] { reap(); });
}

Executor::~Executor() {
  stop();
  if (ring_lost_) {
    // What the ring may still write into stays mapped for good: rather lost than used by somebody else.
    static std::mutex mutex;
    static auto* lost = new std::vector<PooledBuffer>;
    std::lock_guard one(mutex);
    for (auto& [id, flight] : flights_) {
      lost->push_back(std::move(flight->staging));
      lost->push_back(std::exchange(flight->tile->buffer, {}));
    }
  }
  scheduler_.release_tiles();  // through the pool, which tells the ring
}

void Executor::stop() {
  {
    Lock lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
  if (reaper_.joinable()) {
    wake_surely(ring_);
    reaper_.join();
  }
}

void Executor::throw_if_failed() {
  if (error_) std::rethrow_exception(error_);
}

void Executor::fail(std::exception_ptr error, const std::string& where) {
  if (!error_) error_ = error, failed_in_ = where;
  jobs_.clear();
  count_requests(-static_cast<std::ptrdiff_t>(outbox_.size()));
  outbox_.clear();
  work_ready_.notify_all();
  builder_ready_.notify_all();
}

// ---- workers ------------------------------------------------------------------------------------------------------

/// Lets the scheduler start what it can; must be called after every event. Errors of planning end the run.
void Executor::advance(Lock& lock) {
  if (!error_) try {
      scheduler_.pump();
    } catch (...) {
      fail(std::current_exception());
    }
  work_ready_.notify_all();
  builder_ready_.notify_all();
  post(lock);
}

void Executor::work() {
  inside_worker_ = true;
  fill_small_blocks();
  std::vector<Tile> tiles;
  Lock lock(mutex_);
  while (!stopping_) {
    if (!jobs_.empty()) {
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      ++running_;
      const auto began = Clock::now();
      lock.unlock();
      std::exception_ptr thrown;
      try {
        job();
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      --running_;
      stats_.worker_busy_seconds += seconds_between(began, Clock::now());
      if (thrown) fail(thrown);
      advance(lock);
    } else if (TaskState* task = error_ ? nullptr : scheduler_.take()) {
      run_task(lock, *task, tiles);
    } else {
      work_ready_.wait(lock);
    }
  }
}

/// Into `tiles`, whose memory is used again. Without the lock: what a pinned tile is does not change.
void Executor::tiles_of(const TaskState& task, std::vector<Tile>& tiles) {
  tiles.resize(task.operands.size());
  std::size_t scratch = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (task.operands[i]) {
      task.operands[i]->view(tiles[i]);
      continue;
    }
    const auto bytes = static_cast<Index>(task.spec.accesses[i].scratch_bytes);
    tiles[i] = {task.scratch[scratch++].data(), Dtype::uint8, {bytes}, {1}, static_cast<std::size_t>(bytes)};
  }
}

void Executor::run_task(Lock& lock, TaskState& task, std::vector<Tile>& tiles) {
  ++running_;
  lock.unlock();
  std::exception_ptr thrown;
  const auto began = Clock::now();
  try {
    tiles_of(task, tiles);
    if (task.spec.body) task.spec.body(tiles);
    for (const Call& call : task.spec.calls) host_kernels().run(call, tiles);
  } catch (...) {
    thrown = std::current_exception();
  }
  const double seconds = seconds_between(began, Clock::now());
  lock.lock();
  --running_;
  stats_.worker_busy_seconds += seconds;
  if (thrown) {
    fail(thrown, "in task '" + task.spec.name + "'" + where(task));
  } else if (!error_)
    try {
      stats_.flops += task.spec.cost.flops;
      stats_.count(task.spec.calls);
      scheduler_.finished(task);  // may write a tile behind: a full disk, a read-only file
    } catch (...) {
      fail(std::current_exception());
    }
  advance(lock);
}

// ---- memory -------------------------------------------------------------------------------------------------------

/// Scheduler charges come first, so `used` holds the buffer that is about to be taken.
PooledBuffer Executor::take_buffer(std::size_t bytes, bool for_io) {
  const Cache& cache = scheduler_.cache();
  if (!pool_.holds(bytes)) pool_.trim(cache.used(), cache.peak());
  return pool_.take(bytes, for_io);
}

void Executor::allocate(TileState& tile) { tile.buffer = take_buffer(tile.buffer_bytes, true); }

void Executor::release(TileState& tile) {
  if (tile.buffer) pool_.put(std::exchange(tile.buffer, {}));
}

void Executor::allocate_scratch(TaskState& task) {
  for (const Access& access : task.spec.accesses)
    if (access.mode == Mode::scratch) task.scratch.push_back(take_buffer(access.scratch_bytes, false));
}

void Executor::release_scratch(TaskState& task) {
  for (PooledBuffer& buffer : task.scratch) pool_.put(std::move(buffer));
  task.scratch.clear();
}

Statistics Executor::statistics() {
  Lock lock(mutex_);
  Statistics now = stats_;
  now.seconds = seconds_between(start_, end_ == Clock::time_point{} ? Clock::now() : end_);
  now.worker_idle_seconds = now.seconds * options_.workers - now.worker_busy_seconds;
  if (requests_out_ > 0) now.ring_busy_seconds += seconds_between(busy_since_, Clock::now());
  now.ring_idle_seconds = now.seconds - now.ring_busy_seconds;
  now.budget = scheduler_.cache().capacity();
  now.peak_budget = scheduler_.cache().peak();
  now.io = ring_.describe();
  return now;
}

}  // namespace flagstone
