// What the builder's thread does: it adds tasks, waits for what it asked for, and drains the run.
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/executor/executor.hpp"

namespace flagstone {

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

void Executor::run(const std::function<void(Graph&)>& builder) {
  try {
    builder(*this);
    drain();
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
      moments_.check();  // what looks damaged may be of two moments
      throw;
    }
  moments_.check();
}

bool Executor::settled() const {
  return error_ ? running_ == 0 && (requests_out_ == 0 || ring_lost_) : scheduler_.drained();
}

TaskId Executor::add(TaskSpec task) {
  if (inside_worker_) {
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

TaskId Executor::add_one(Lock& lock, TaskSpec task, bool host) {
  throw_if_failed();
  const auto full = [this] { return scheduler_.pending() >= lookahead_; };
  if (full() && inside_worker_)
    throw Error("graph: a running task added '" + task.name + "' while " + std::to_string(lookahead_) +
                " tasks wait; add from the builder, or raise lookahead.");
  if (full()) {
    advance(lock);
    wait_until(lock, [&] { return error_ || !full(); });
  }
  throw_if_failed();
  moments_.watch(task);
  const TaskId id = scheduler_.add(std::move(task), host, trusted_).id;
  ++stats_.tasks;
  if (scheduler_.hungry()) advance(lock);
  throw_if_failed();
  return id;
}

void Executor::await(std::vector<Access> accesses, const std::function<void(std::span<const Tile>)>& body) {
  if (inside_worker_) throw Error("graph: await was called by a running task; only the builder may wait.");
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
  scheduler_.store_kept();
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

}  // namespace flagstone
