#include "flagstone/runtime/scheduler/scheduler.hpp"

#include <algorithm>
#include <optional>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/requests.hpp"

namespace flagstone {
namespace {

using Where = TileState::Where;

constexpr std::size_t most_spare = 64;

}  // namespace

Scheduler::Scheduler(std::uint64_t capacity, Machine& machine, int workers, Spaces spaces)
    : Spread(capacity, machine, std::move(spaces)), workers_(static_cast<std::uint64_t>(workers)) {}

void Scheduler::throw_over_budget(const std::string& who, std::uint64_t need) const {
  throw BudgetError(who + ": needs " + format_bytes(need) + " for tiles and the budget is " +
                        format_bytes(cache_.capacity()) + "; raise memory=.",
                    need);
}

void Scheduler::collect_returns() {
  const std::uint64_t bytes = returns_->exchange(0);
  charged_ -= bytes;
  cache_.give(bytes);
}

void Scheduler::depend(TaskState& task, TaskState* on) {
  if (!on || on == &task || on->phase == TaskState::Phase::done) return;
  if (!on->successors.empty() && on->successors.back() == &task) return;  // linked through another tile already
  on->successors.push_back(&task);
  ++task.unmet;
  if (on->phase == TaskState::Phase::waiting) ++task.unplanned;
}

/// Dependencies from program order: read after write, write after write, write after read.
void Scheduler::link(TaskState& task) {
  for (auto& held : task.held) {
    TileState& tile = *held.tile;
    depend(task, tile.last_writer);
    if (held.modifies)
      for (TaskState* reader : tile.readers) depend(task, reader);
  }
  for (auto& held : task.held) {
    TileState& tile = *held.tile;
    if (held.modifies) {
      tile.last_writer = &task;
      tile.readers.clear();
    } else {
      tile.readers.push_back(&task);
    }
    tile.uses.push_back({&task, task.id, held.modifies && !held.reads, held.modifies});
    tile.changes += held.modifies || held.last;
    ++tile.owner->pending_uses;
    if (tile.uses.size() == 1) cache_.requeue(tile);
    if (spread()) requeue_copies(tile);
  }
  for (TaskId id : task.spec.after)
    if (auto it = tasks_.find(id); it != tasks_.end()) depend(task, it->second.get());
}

std::unique_ptr<TaskState> Scheduler::fresh_task() {
  if (spare_.empty()) return std::make_unique<TaskState>();
  auto task = std::move(spare_.back());
  spare_.pop_back();
  const auto reuse = [](auto& vector) { return vector.clear(), std::move(vector); };
  TaskState fresh;
  fresh.operands = reuse(task->operands);
  fresh.held = reuse(task->held);
  fresh.scratch = reuse(task->scratch);
  fresh.successors = reuse(task->successors);
  *task = std::move(fresh);
  return task;
}

/// Tiles that nobody uses and that overlap one that is used from now on: they would be old once that is written.
void Scheduler::drop_outdated() {
  for (TileState* tile : cache_.take_outdated())
    if (tile->copies)
      discard(*tile);
    else if (tile->where == Where::resident && !tile->in_memory_array())
      drop(*tile);
    else
      cache_.forget(*tile);
}

namespace {

/// Holds the tiles of a task that is being added, so that its own later regions are compared with them too.
class Named {
 public:
  explicit Named(TaskState& task) : task_(task) {}
  Named(const Named&) = delete;
  ~Named() {
    for (TileState* tile : task_.operands)
      if (tile) --tile->pins;
  }
  void add(TileState& tile) {
    task_.operands.push_back(&tile);
    ++tile.pins;
  }

 private:
  TaskState& task_;
};

}  // namespace

TaskState& Scheduler::add(TaskSpec spec, bool host, bool trusted) {
  auto made = fresh_task();
  TaskState& task = *made;
  task.id = next_id_++;
  task.spec = std::move(spec);
  task.host = host;
  task.trusted = trusted || spread();  // what is missing where decides less than what is needed next
  std::uint64_t need = 0;
  std::optional<Named> named(task);
  for (const Access& access : task.spec.accesses) {
    if (access.mode == Mode::scratch) {
      task.operands.push_back(nullptr);
      task.scratch_bytes += align_up(access.scratch_bytes);
      continue;
    }
    const bool modifies = access.mode != Mode::read, reads = access.mode != Mode::write;
    TileState& tile = cache_.tile(access.region, reads, modifies);
    named->add(tile);
    drop_outdated();
    auto held = std::find_if(task.held.begin(), task.held.end(), [&](auto& h) { return h.tile == &tile; });
    if (held == task.held.end()) {
      task.held.push_back({&tile, reads, modifies, access.last, access.again, access.once});
      need += tile.bytes + (reads ? tile.read_staging : 0);
    } else {
      held->reads |= reads;
      held->modifies |= modifies;
      held->last |= access.last;
      held->again |= access.again;
      held->once |= access.once;
    }
  }
  named.reset();
  collect_returns();
  if (spread()) {
    put_on_device(task);
    if (task.space > 0) need = host_need(task);
  }
  need += (task.space == 0 ? task.scratch_bytes : 0) + charged_;
  least_capacity_ = std::max(least_capacity_, need);
  if (need > cache_.capacity()) throw_over_budget(task.spec.name, need);
  link(task);
  tasks_.emplace(task.id, std::move(made));
  if (task.unplanned == 0) set_startable(task, true);
  return task;
}

void Scheduler::evict(TileState& tile) {
  if (tile.dirty && !tile.overwritten_next()) {
    tile.leaving = true;  // its memory comes back when the store has completed
    leaving_bytes_ += tile.bytes;
    store(tile);
  } else {
    drop(tile);
  }
}

void Scheduler::drop(TileState& tile) {
  machine_.release(tile);
  cache_.give(tile.bytes);
  tile.where = Where::absent;
  tile.dirty = false;
  cache_.set_open(tile, false);
  cache_.requeue(tile);
  cache_.forget(tile);
}

/// A streamed tile goes out though somebody in sight changes it again: who was admitted before waits for the store.
void Scheduler::hold_changes(TileState& tile) {
  for (const Uses::Use& use : tile.uses) {
    TaskState& task = *use.task;
    const bool changes =
        std::ranges::any_of(task.held, [&](auto& held) { return held.tile == &tile && held.modifies; });
    if (task.phase != TaskState::Phase::admitted || !changes) continue;
    ++task.arriving;
    tile.waiters.push_back(&task);
  }
}

void Scheduler::store(TileState& tile) {
  Transfer transfer = in_pieces(machine_.transfer_to_store(tile));
  tile.storing = true;
  tile.dirty = false;
  if (tile.once && tile.uses.empty() && !tile.leaving) {  // its memory comes back: nothing else has to leave for it
    tile.leaving = true;
    leaving_bytes_ += tile.bytes;
  }
  if (tile.when == Written::streamed && !spread()) hold_changes(tile);
  cache_.requeue(tile);
  ++in_flight_;
  machine_.store(tile, std::move(transfer));
}

/// All or nothing: memory for every tile and for scratch, pins, and the loads on their way.
bool Scheduler::admit(TaskState& task) {
  if (spread()) return admit_spread(task);
  for (const auto& held : task.held)
    if (!held.modifies && held.tile->leaves_first()) return false;  // a task that runs or a store brings it back
  for (auto& held : task.held) {
    ++held.tile->pins;  // so that making room does not take them
    cache_.requeue(*held.tile);
  }
  const auto wait = [&] {
    for (auto& held : task.held) {
      --held.tile->pins;
      cache_.requeue(*held.tile);
    }
    return false;
  };
  // At first without staging: to list requests takes longer than to find that there is no room, which is the rule.
  if (make_room(missing_bytes(task), task.trusted, task.id) == Room::wait) return wait();
  struct Planned {
    TileState* tile;
    Transfer transfer;
  };
  std::vector<Planned> loads;
  std::uint64_t beside = 0;
  for (auto& held : task.held)
    if (held.tile->where == Where::absent && held.reads) {
      loads.push_back({held.tile, in_pieces(held.tile->array.store().read(held.tile->box))});
      beside += loads.back().transfer.beside_bytes();
    }
  if (beside > 0 && make_room(missing_bytes(task) + beside, task.trusted, task.id) == Room::wait) return wait();
  set_startable(task, false);
  task.phase = TaskState::Phase::admitted;
  ++admitted_;
  cache_.take(task.scratch_bytes);
  machine_.allocate_scratch(task);
  for (auto& held : task.held) {
    TileState& tile = *held.tile;
    if (tile.where == Where::absent) {
      cache_.take(tile.bytes);
      machine_.allocate(tile);
      tile.where = Where::resident;
    }
    if (held.modifies) cache_.set_open(tile, true);
  }
  for (auto& [tile, transfer] : loads) {
    tile->where = Where::loading;
    cache_.take(transfer.beside_bytes());
    ++in_flight_;
    loading_bytes_ += tile->bytes;
    machine_.load(*tile, std::move(transfer));
  }
  for (auto& held : task.held)
    if (held.tile->where == Where::loading || (held.tile->storing && held.modifies)) {
      ++task.arriving;
      held.tile->waiters.push_back(&task);
    }
  for (TaskState* successor : task.successors)
    if (--successor->unplanned == 0) set_startable(*successor, true);
  maybe_runnable(task);
  return true;
}

void Scheduler::maybe_runnable(TaskState& task) {
  if (spread()) return maybe_claim(task);
  if (task.phase == TaskState::Phase::admitted && task.arriving == 0 && task.unmet == 0)
    Spread::runnable(task).push(&task);
}

void Scheduler::pump() {
  collect_returns();
  if (spread()) go_home();
  while (cache_.idle_clean_tiles() > most_idle_) drop(*cache_.free_victim());
  while (TaskState* task = best_startable()) {
    if (!admit(*task)) {
      if (quiet()) throw_over_budget(task->spec.name, missing_bytes(*task) + charged_);
      if (task->trusted && runnable_anywhere() < 2 * workers_) overtake(*task);
      break;
    }
    overtaking_ = 0;
  }
}

void Scheduler::release_tile(TaskState& task, TaskState::Held& held) {
  TileState& tile = *held.tile;
  --tile.pins;
  --tile.owner->pending_uses;
  tile.uses.erase(task.id);
  tile.changes -= held.modifies || held.last;
  if (tile.last_writer == &task) tile.last_writer = nullptr;
  std::erase(tile.readers, &task);
  if (held.modifies && !tile.in_memory_array()) tile.dirty = true;
  if (held.modifies) tile.again = held.again, tile.once = held.once;
  const bool idle = tile.pins == 0 && tile.uses.empty();
  if (idle && held.last && !tile.in_memory_array() && !tile.storing) {
    drop(tile);
  } else if (tile.settled() && !tile.storing) {
    store(tile);  // write-behind: who reads it may look meanwhile
  } else if (idle && tile.once && !tile.dirty && tile.evictable()) {
    drop(tile);
  } else if (tile.pins == 0) {
    cache_.requeue(tile);
    cache_.forget(tile);
  }
}

void Scheduler::finished(TaskState& task) {
  task.phase = TaskState::Phase::done;
  --admitted_;
  if (task.space == 0) {
    machine_.release_scratch(task);
    cache_.give(task.scratch_bytes);
  } else {
    leave_device(task);
  }
  for (auto& held : task.held) spread() ? release_spread(task, held) : release_tile(task, held);
  for (TaskState* successor : task.successors)
    if (--successor->unmet == 0) maybe_runnable(*successor);
  const auto finished = tasks_.find(task.id);
  task.spec = {};  // what its body holds goes now
  if (spare_.size() < most_spare) spare_.push_back(std::move(finished->second));
  tasks_.erase(finished);
}

void Scheduler::arrived(TileState& tile) {
  if (spread()) return arrived_spread(tile);
  for (TaskState* task : std::exchange(tile.waiters, {}))
    if (--task->arriving == 0) maybe_runnable(*task);
}

void Scheduler::loaded(TileState& tile, std::uint64_t beside) {
  --in_flight_;
  loading_bytes_ -= tile.bytes;
  cache_.give(beside);
  tile.where = Where::resident;
  if (tile.copies) tile.copies->loading = false;
  arrived(tile);
  cache_.requeue(tile);
}

void Scheduler::stored(TileState& tile) {
  --in_flight_;
  tile.storing = false;
  const bool leaving = std::exchange(tile.leaving, false);
  if (leaving) leaving_bytes_ -= tile.bytes;
  if (spread() && superseded(tile)) return arrived(tile);
  // Else somebody is about to modify it again; in several memories who does so opens it anew (claim_tile).
  if (tile.waiters.empty() || spread()) cache_.set_open(tile, false);
  arrived(tile);
  if (tile.settled())
    store(tile);
  else if (tile.pins == 0 && (leaving || tile.when == Written::streamed || (tile.once && tile.uses.empty())))
    drop(tile);
  else
    cache_.requeue(tile);
}

void Scheduler::store_kept(bool end) {
  at_end_ = end;
  cache_.for_each_tile([&](TileState& tile) {
    tile.again = false;
    if (tile.copies && tile.copies->newest != 0) return leave_at_end(tile, end);
    const bool spoken_of = tile.when == Written::with_checkpoints && tile.dirty && !end;
    if ((tile.settled() || spoken_of) && !tile.storing) store(tile);
  });
}

bool Scheduler::reserve(std::uint64_t bytes) {
  collect_returns();
  least_capacity_ = std::max(least_capacity_, charged_ + bytes);
  if (charged_ + bytes > cache_.capacity()) throw_over_budget("allocate", charged_ + bytes);
  if (make_room(bytes, true, next_id_) == Room::wait) {
    if (quiet()) throw_over_budget("allocate", charged_ + bytes);
    return false;
  }
  cache_.take(bytes);
  charged_ += bytes;
  return true;
}

}  // namespace flagstone
