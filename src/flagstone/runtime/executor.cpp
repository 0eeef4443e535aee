#include "flagstone/runtime/executor.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

thread_local bool inside_worker = false;

/// Threads of the library never see the user's signals: Ctrl-C belongs to the thread that called.
std::thread quiet_thread(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

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

/// Into `tiles`, whose memory is used again. Without the lock: what a pinned tile is does not change.
void tiles_of(const TaskState& task, std::vector<Tile>& tiles) {
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
  for (int i = 0; i < options_.workers; ++i) threads_.push_back(quiet_thread([this] { work(); }));
  reaper_ = quiet_thread([this] { reap(); });
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
    wake_reaper();
    reaper_.join();
  }
}

/// While the kernel has no memory for requests nothing but trying again helps, and this thread has nothing else to do.
void Executor::wake_reaper() {
  for (bool first = true;; first = false) try {
      return first ? ring_.wake() : ring_.submit({});  // which sends what is queued, the wake too
    } catch (const StorageError&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

void Executor::run(const std::function<void(Graph&)>& builder) {
  try {
    builder(*this);
    reduction_.finish();
  } catch (...) {
    Lock lock(mutex_);
    fail(std::current_exception());
  }
  {
    Lock lock(mutex_);
    // After an error nothing new starts; what runs and flies has to land before memory can go away.
    advance(lock);
    while (!settled()) try {
        wait_until(lock, [this] { return settled(); });  // the heartbeat goes on: tasks may need a second Ctrl-C
      } catch (...) {
        fail(std::current_exception());
      }
    end_ = Clock::now();
  }
  stop();
  if (error_) try {
      std::rethrow_exception(error_);
    } catch (const FormatError&) {
      check_watched();  // what looks damaged may be of two moments
      throw;
    }
  check_watched();
}

bool Executor::settled() const {
  return error_ ? running_ == 0 && (requests_out_ == 0 || ring_lost_) : scheduler_.drained();
}

void Executor::fail(std::exception_ptr error, const std::string& where) {
  if (!error_) error_ = error, failed_in_ = where;
  jobs_.clear();
  count_requests(-static_cast<std::ptrdiff_t>(outbox_.size()));
  outbox_.clear();
  work_ready_.notify_all();
  builder_ready_.notify_all();
}

void Executor::throw_if_failed() {
  if (error_) std::rethrow_exception(error_);
}

/// Waits on the builder's thread; every tenth of a second the heartbeat may look for Ctrl-C and throw.
template <class Ready>
void Executor::wait_until(Lock& lock, Ready ready) {
  constexpr auto beat = std::chrono::milliseconds(100);
  auto next = Clock::now() + beat;  // by the clock: events that come faster must not keep Ctrl-C waiting
  while (!ready()) {
    builder_ready_.wait_until(lock, next);
    if (Clock::now() < next) continue;
    next = Clock::now() + beat;
    if (heartbeat_) {
      lock.unlock();
      const Statistics now = statistics();
      std::exception_ptr cancelled;
      try {
        heartbeat_(now);
      } catch (...) {
        cancelled = std::current_exception();
      }
      lock.lock();
      if (cancelled) std::rethrow_exception(cancelled);
    }
  }
}

// ---- adding -------------------------------------------------------------------------------------------------------

TaskId Executor::add(TaskSpec task) {
  if (inside_worker) {
    for (const Access& access : task.accesses)
      if (access.mode == Mode::reduce) throw Error("graph: a running task cannot add a reducing one; the builder can.");
    Lock lock(mutex_);
    return add_one(lock, std::move(task), false);
  }
  const auto merge = reduction_.prepare(task);
  TaskId id;
  {
    Lock lock(mutex_);
    id = add_one(lock, std::move(task), false);
  }
  if (merge) merge();
  return id;
}

/// An array that another handle or process commits to has several moments: a run is of one, or an error.
void Executor::watch(const TaskSpec& task) {
  for (const Access& access : task.accesses) {
    if (access.mode == Mode::scratch || access.mode == Mode::write || access.region.array.in_memory()) continue;
    ArrayStore& store = access.region.array.store();
    if (!watched_.contains(&store)) watched_.insert({&store, {access.region.array, store.look()}});
  }
}

void Executor::check_watched() const {
  for (const auto& [store, seen] : watched_)
    if (seen.array.store().look() != seen.moment)
      throw StorageError("read: somebody committed to the array while it was read; run it again", EAGAIN,
                         seen.array.path());
}

TaskId Executor::add_one(Lock& lock, TaskSpec task, bool host) {
  throw_if_failed();
  const auto full = [this] { return scheduler_.pending() >= lookahead_; };
  if (full() && inside_worker)
    throw Error("graph: a running task added '" + task.name + "' while " + std::to_string(lookahead_) +
                " tasks wait; add from the builder, or raise lookahead.");
  if (full()) {
    advance(lock);
    wait_until(lock, [&] { return error_ || !full(); });
  }
  throw_if_failed();
  watch(task);
  const TaskId id = scheduler_.add(std::move(task), host, trusted_).id;
  ++stats_.tasks;
  if (scheduler_.hungry()) advance(lock);
  throw_if_failed();
  return id;
}

void Executor::await(std::vector<Access> accesses, const std::function<void(std::span<const Tile>)>& body) {
  if (inside_worker) throw Error("graph: await was called by a running task; only the builder may wait.");
  TaskSpec spec;
  spec.name = "await";
  spec.accesses = std::move(accesses);
  if (reduction_.prepare(spec)) throw Error("graph: await cannot reduce; add a task.");
  Lock lock(mutex_);
  add_one(lock, std::move(spec), true);
  TaskState* task = nullptr;
  advance(lock);
  wait_until(lock, [&] { return error_ || (task = scheduler_.take_host()) != nullptr; });
  throw_if_failed();
  ++running_;
  lock.unlock();
  std::vector<Tile> tiles;
  tiles_of(*task, tiles);
  std::exception_ptr thrown;
  try {
    body(tiles);
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  --running_;
  if (thrown) std::rethrow_exception(thrown);
  throw_if_failed();
  scheduler_.finished(*task);
  advance(lock);
}

void Executor::barrier() {
  reduction_.finish();
  Lock lock(mutex_);
  advance(lock);
  wait_until(lock, [&] { return error_ || scheduler_.idle(); });
  throw_if_failed();
}

void Executor::drain() {
  barrier();
  Lock lock(mutex_);
  advance(lock);
  wait_until(lock, [&] { return error_ || scheduler_.drained(); });
  throw_if_failed();
}

Charge Executor::charge(std::uint64_t bytes) {
  Lock lock(mutex_);
  bool taken = false;
  wait_until(lock, [&] { return error_ || (taken = scheduler_.reserve(bytes)); });
  throw_if_failed();
  pool_.trim(scheduler_.cache().used(), scheduler_.cache().peak());
  return Charge([returns = scheduler_.returns(), bytes] { returns->fetch_add(bytes); });
}

Array Executor::allocate(const Shape& shape, Dtype dtype) {
  struct Held {
    Buffer buffer;  // given back before its charge
    Charge charge;
  };
  const std::uint64_t bytes = align_up(static_cast<std::uint64_t>(count(shape)) * size_of(dtype));
  auto held = std::make_shared<Held>();
  held->charge = charge(bytes);
  held->buffer = Buffer(bytes);
  std::byte* data = held->buffer.data();
  return memory_array(data, shape, dtype, c_strides(shape, size_of(dtype)), held);
}

std::uint64_t Executor::budget() const {
  Lock lock(mutex_);
  return scheduler_.cache().capacity() - scheduler_.charged();
}

void Executor::host_work(const std::string&, Cost cost) {
  Lock lock(mutex_);
  stats_.flops += cost.flops;
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
  inside_worker = true;
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

void Executor::run_task(Lock& lock, TaskState& task, std::vector<Tile>& tiles) {
  ++running_;
  lock.unlock();
  std::exception_ptr thrown;
  const auto began = Clock::now();
  try {
    tiles_of(task, tiles);
    if (task.spec.body) task.spec.body(tiles);
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
