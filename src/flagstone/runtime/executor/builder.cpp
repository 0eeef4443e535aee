#include "flagstone/runtime/executor/builder.hpp"

#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone {

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

/// Waits on the builder's thread; every tenth of a second the heartbeat may look for Ctrl-C and throw.
template <class Ready>
void BuilderThread::wait_until(Lock& lock, Ready ready, bool changes) {
  constexpr auto beat = std::chrono::milliseconds(100);
  struct Waiting {
    RunState& run;
    ~Waiting() { run.builder_waits_for = nullptr; }
  } const waiting{run_};
  if (!changes) run_.builder_waits_for = std::ref(ready);
  auto next = Clock::now() + beat;  // by the clock: events that come faster must not keep Ctrl-C waiting
  while (!ready()) {
    run_.builder_ready.wait_until(lock, next);
    if (Clock::now() < next) continue;
    next = Clock::now() + beat;
    if (heartbeat_) {
      lock.unlock();
      std::exception_ptr cancelled;
      try {
        heartbeat_();
      } catch (...) {
        cancelled = std::current_exception();
      }
      lock.lock();
      if (cancelled) std::rethrow_exception(cancelled);
    }
  }
}

BuilderThread::BuilderThread(RunState& run, const TransferQueue& transfers, const RuntimeOptions& options,
                             ScratchSpace scratch, Heartbeat heartbeat)
    : RunningGraph(options, std::move(scratch)),
      run_(run),
      transfers_(transfers),
      heartbeat_(std::move(heartbeat)),
      reduction_(*this, [this](TaskSpec task) {
        Lock lock(run_.mutex);
        add_one(lock, std::move(task), false);
      }) {}

void BuilderThread::run(const std::function<void(Graph&)>& builder) {
  try {
    builder(*this);
    write_all(true);
  } catch (...) {
    Lock lock(run_.mutex);
    run_.fail(std::current_exception());
  }
  Lock lock(run_.mutex);
  // After an error nothing new starts; what runs and flies has to land before memory can go away.
  run_.advance(lock);
  while (!settled()) try {
      wait_until(lock, [this] { return settled(); });  // the heartbeat goes on: tasks may need a second Ctrl-C
    } catch (...) {
      run_.fail(std::current_exception());
    }
}

void BuilderThread::check() const {
  if (run_.error) try {
      std::rethrow_exception(run_.error);
    } catch (const FormatError&) {
      snapshot_.check();  // what looks damaged may be of two moments
      throw;
    }
  snapshot_.check();
}

bool BuilderThread::settled() const {
  return run_.error ? run_.running == 0 && run_.on_devices == 0 && transfers_.settled() : run_.scheduler.drained();
}

TaskId BuilderThread::add(TaskSpec task) {
  if (RunState::inside_worker) {
    for (const Access& access : task.accesses)
      if (access.mode == Mode::reduce) throw Error("graph: a running task cannot add a reducing one; the builder can.");
    Lock lock(run_.mutex);
    return add_one(lock, std::move(task), false);
  }
  const auto merge = reduction_.prepare(task);
  TaskId id;
  {
    Lock lock(run_.mutex);
    id = add_one(lock, std::move(task), false);
  }
  if (merge) merge();
  return id;
}

/// Where the tile that the task changes first goes: asked without the run's lock, so that the answer is there when the
/// scheduler asks under it.
void BuilderThread::ask_place(Lock& lock, const TaskSpec& task) const {
  const auto changes = [](const Access& access) { return access.mode != Mode::read && access.mode != Mode::scratch; };
  const auto changed = std::ranges::find_if(task.accesses, [&](const Access& access) {
    return access.mode != Mode::scratch && std::ranges::any_of(task.accesses, [&](const Access& other) {
             return changes(other) && other.region.array.id() == access.region.array.id() &&
                    other.region.box == access.region.box;
           });
  });
  if (changed == task.accesses.end()) return;
  const Shape at = run_.scheduler.place_of(changed->region);
  lock.unlock();
  options_.place(changed->region, at);
  lock.lock();
}

TaskId BuilderThread::add_one(Lock& lock, TaskSpec task, bool host) {
  run_.throw_if_failed();
  if (options_.place_waits && !host) ask_place(lock, task);
  const auto full = [this] { return run_.scheduler.pending() >= lookahead_; };
  if (full() && RunState::inside_worker)
    throw Error("graph: a running task added '" + task.name + "' while " + std::to_string(lookahead_) +
                " tasks wait; add from the builder, or raise lookahead.");
  if (full()) {
    run_.advance(lock);
    wait_until(lock, [&] { return run_.error || !full(); });
  }
  run_.throw_if_failed();
  for (const Access& access : task.accesses)
    if (access.mode != Mode::scratch) check_has_elements(access.region.array);
  snapshot_.watch(task);
  const TaskId id = run_.scheduler.add(std::move(task), host, trusted_).id;
  ++run_.stats.tasks;
  if (run_.scheduler.hungry()) run_.advance(lock);
  run_.throw_if_failed();
  return id;
}

void BuilderThread::await(std::vector<Access> accesses, const std::function<void(std::span<const Tile>)>& body) {
  if (RunState::inside_worker) throw Error("graph: await was called by a running task; only the builder may wait.");
  TaskSpec spec;
  spec.name = "await";
  spec.accesses = std::move(accesses);
  if (reduction_.prepare(spec)) throw Error("graph: await cannot reduce; add a task.");
  Lock lock(run_.mutex);
  add_one(lock, std::move(spec), true);
  TaskState* task = nullptr;
  run_.advance(lock);
  wait_until(
      lock, [&] { return run_.error || (task = run_.scheduler.take_host()) != nullptr; }, true);
  run_.throw_if_failed();
  ++run_.running;
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
  --run_.running;
  if (thrown) std::rethrow_exception(thrown);
  run_.throw_if_failed();
  run_.scheduler.finished(*task);
  run_.scheduler.memory_may_change();
  run_.advance(lock);
}

void BuilderThread::distribute(const Array& array, const Distribution& distribution) {
  check_distribution(array.shape(), distribution);
  Lock lock(run_.mutex);
  if (distribution.place) run_.scheduler.place_array(array, distribution.tile, distribution.place);
}

void BuilderThread::barrier() {
  reduction_.finish();
  Lock lock(run_.mutex);
  run_.scheduler.want_memory();
  run_.advance(lock);
  wait_until(lock, [&] { return run_.error || run_.scheduler.idle(); });
  run_.throw_if_failed();
  run_.scheduler.memory_may_change();
}

void BuilderThread::write_all(bool end) {
  barrier();
  Lock lock(run_.mutex);
  run_.scheduler.store_kept(end);
  run_.advance(lock);
  wait_until(lock, [&] { return run_.error || run_.scheduler.drained(); });
  run_.throw_if_failed();
}

Charge BuilderThread::charge(std::uint64_t bytes) {
  Lock lock(run_.mutex);
  const auto reserved = [&] { return run_.error || run_.scheduler.reserve(bytes); };
  const auto reserved_or_on_its_way = [&] {
    if (reserved()) return true;
    run_.advance(lock);  // tiles that leave for it are written: where nothing else is under way, nobody else sends them
    return reserved();
  };
  wait_until(lock, reserved_or_on_its_way, true);
  run_.throw_if_failed();
  run_.pool.trim(run_.scheduler.cache().used(), run_.scheduler.cache().peak());
  return Charge([returns = run_.scheduler.returns(), bytes] { returns->fetch_add(bytes); });
}

Array BuilderThread::allocate(const Shape& shape, Dtype dtype) {
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

std::uint64_t BuilderThread::budget() const {
  Lock lock(run_.mutex);
  return run_.scheduler.cache().capacity() - run_.scheduler.charged();
}

void BuilderThread::host_work(const std::string&, Cost cost) {
  Lock lock(run_.mutex);
  run_.stats.flops += cost.flops;
}

}  // namespace flagstone
