// Tiles in several memories: admission over host and device, and every step of a copy.
//
// A task may look at a tile in its space once all earlier tasks that change the tile are done (dependencies), and what
// lies there is valid. A task that changes it claims it when it becomes runnable: all other copies are old from then
// on, and so all earlier readers are done by then. Who was admitted later and holds memory for a copy that has become
// old keeps the memory; serve() fills it again as soon as the change is done.
#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/scheduler/spread.hpp"
#include "flagstone/runtime/scheduler/whereabouts.hpp"
#include "flagstone/storage/array/requests.hpp"

namespace flagstone {
namespace {

using Where = TileState::Where;
using State = Copy::State;

}  // namespace

/// What a task holds while it is admitted, or tries to be: its tiles where it runs, and the host's copy of those that
/// come through there.
void Spread::pin(TaskState& task, int by) {
  for (auto& held : task.held) {
    TileState& tile = *held.tile;
    if (task.space > 0) tile.copies->at(task.space).pins += by;
    if (task.space == 0 || held.bounce) tile.pins += by;
    cache_.requeue(tile);
    requeue_copies(tile);
  }
}

/// As admit(), over the task's space and the host.
bool Spread::admit_spread(TaskState& task) {
  for (const auto& held : task.held)
    if (!held.modifies && held.tile->leaves_first()) return false;
  for (auto& held : task.held) held.bounce = task.space > 0 && held.reads && comes_through_host(*held.tile, task);
  pin(task, 1);
  const auto wait = [&] {
    pin(task, -1);
    for (auto& held : task.held) held.bounce = false;
    return false;
  };
  if (task.space > 0 && !place_on_device(task)) return wait();
  const auto wait_for_host = [&] {
    if (task.space > 0) take_back(task);
    return wait();
  };
  const auto on_host = [&](const auto& held) { return task.space == 0 || held.bounce; };
  std::uint64_t missing = task.space == 0 ? task.scratch_bytes : 0;
  for (const auto& held : task.held)
    if (on_host(held) && held.tile->where == Where::absent) missing += held.tile->bytes;
  if (make_room(missing, true, task.id) == Room::wait) return wait_for_host();
  struct Planned {
    TileState* tile;
    Transfer transfer;
  };
  std::vector<Planned> loads;
  std::uint64_t beside = 0;
  for (const auto& held : task.held) {
    TileState& tile = *held.tile;
    if (!on_host(held) || !held.reads || tile.where != Where::absent || tile.copies->newest != 0) continue;
    if (writer_before(tile, task) != nobody || held_by(tile) != nobody) continue;
    loads.push_back({&tile, in_pieces(tile.array.store().read(tile.box))});
    beside += loads.back().transfer.beside_bytes();
  }
  if (beside > 0 && make_room(missing + beside, true, task.id) == Room::wait) return wait_for_host();
  set_startable(task, false);
  task.phase = TaskState::Phase::admitted;
  ++admitted_;
  if (task.space == 0) {
    cache_.take(task.scratch_bytes);
    machine_.allocate_scratch(task);
  } else {
    ++residency(task.space).admitted;
  }
  for (auto& held : task.held) {
    TileState& tile = *held.tile;
    if (on_host(held) && tile.where == Where::absent) {
      cache_.take(tile.bytes);
      machine_.allocate(tile);
      tile.where = Where::loading;
    }
    if (held.modifies) cache_.set_open(tile, true);
  }
  for (auto& [tile, transfer] : loads) {
    tile->copies->loading = true;
    cache_.take(transfer.beside_bytes());
    ++in_flight_;
    loading_bytes_ += tile->bytes;
    machine_.load(*tile, std::move(transfer));
  }
  for (auto& held : task.held) serve(*held.tile);
  for (TaskState* successor : task.successors)
    if (--successor->unplanned == 0) set_startable(*successor, true);
  maybe_claim(task);
  return true;
}

// ---- copies under way ---------------------------------------------------------------------------------------------

/// Sees to it that whoever needs the tile as it is now gets it: admitted tasks up to the first that changes it.
void Spread::serve(TileState& tile) {
  const bool wanted = tile.where == Where::loading ||
                      std::ranges::any_of(tile.copies->on, [](const Copy& copy) { return copy.state == State::empty; });
  if (!wanted) return;
  for (const Uses::Use& use : tile.uses) {
    if (use.task->phase == TaskState::Phase::admitted && !use.overwrites) bring(tile, use.task->space);
    if (use.modifies) break;
  }
}

void Spread::bring(TileState& tile, int space) {
  Copies& copies = *tile.copies;
  if (copies.changing || (space > 0 && copies.at(space).state != State::empty)) return;
  if (space > 0 && valid_on_host(tile)) {
    start_copy_in(tile, space);
  } else if (copies.newest != space || space == 0) {
    if (const int from = held_by(tile); from != nobody && empty_on_host(tile)) start_copy_out(tile, from);
  }
}

void Spread::start_copy_in(TileState& tile, int space) {
  Copies& copies = *tile.copies;
  copies.at(space).state = State::arriving;
  ++copies.flights, ++in_flight_;
  ++tile.pins;
  cache_.requeue(tile);
  SpaceStatistics& counts = residency(space).counts;
  ++counts.copies_in, counts.bytes_in += copies.bytes;
  machine_.copy_in(tile, space);
}

void Spread::copied_in(TileState& tile, int space) {
  Copies& copies = *tile.copies;
  --copies.flights, --in_flight_;
  --tile.pins;
  copies.at(space).state = State::valid;
  for (const Uses::Use& use : tile.uses) {  // who waited for it needs the host's copy no more
    if (use.task->space == space) unbounce(*use.task, &tile);
    if (use.modifies) break;
  }
  cache_.requeue(tile);
  requeue_copies(tile);
  arrived_spread(tile);
}

/// The host has memory for it.
void Spread::start_copy_out(TileState& tile, int from) {
  Copies& copies = *tile.copies;
  copies.at(from).leaving = true;
  tile.where = Where::loading;
  ++copies.flights, ++in_flight_;
  requeue_copies(tile);
  SpaceStatistics& counts = residency(from).counts;
  ++counts.copies_out, counts.bytes_out += copies.bytes;
  machine_.copy_out(tile, from);
}

void Spread::copied_out(TileState& tile, int space) {
  Copies& copies = *tile.copies;
  Copy& copy = copies.at(space);
  --copies.flights, --in_flight_;
  copy.leaving = false;
  tile.where = Where::resident;
  if (std::exchange(copies.newest, 0) != 0) tile.in_memory_array() ? void(--strayed_) : void(tile.dirty = true);
  if (std::exchange(copy.evicting, false)) {
    residency(space).leaving_bytes -= Arena::charged(copies.bytes);
    if (copy.pins == 0) drop_copy(tile, space);
  } else if (copy.pins == 0 && tile.once && tile.uses.empty()) {
    drop_copy(tile, space);
  }
  requeue_copies(tile);
  const bool wanted = std::exchange(copies.store_home, false);
  if (tile.dirty && !tile.storing && (wanted || tile.complete())) store(tile);
  cache_.requeue(tile);
  arrived_spread(tile);
  cache_.forget(tile);
}

/// The newest copy goes to the host, if there is room; else it is tried again, where somebody has to see to that.
/// False: nothing is on its way.
bool Spread::send_home(TileState& tile, bool ask_again) {
  Copies& copies = *tile.copies;
  if (copies.newest == 0 || copies.at(copies.newest).leaving) return true;
  if (copies.changing) return false;  // who changes it asks when it is done
  bool room = copies.flights == 0 && !tile.storing;
  if (room && !tile.in_memory_array() && tile.where == Where::absent) {
    room = make_room(tile.bytes, true, 0) == Room::enough;
    if (room) {
      cache_.take(tile.bytes);
      machine_.allocate(tile);
    }
  }
  if (room)
    start_copy_out(tile, copies.newest);
  else if (ask_again && !std::exchange(copies.homeward, true))
    homeward_.push_back(&tile);
  return room;
}

/// Those that wait for room on the host, in the order in which they asked.
void Spread::go_home() {
  if (memory_wanted_ && tasks_.empty() && strayed_ > 0)
    cache_.for_each_tile([this](TileState& tile) {
      if (tile.in_memory_array() && tile.copies && tile.copies->newest != 0 &&
          !tile.copies->at(tile.copies->newest).leaving && !std::exchange(tile.copies->homeward, true))
        homeward_.push_back(&tile);
    });
  for (std::size_t left = homeward_.size(); left > 0; --left) {
    TileState& tile = *homeward_.front();
    homeward_.pop_front();
    tile.copies->homeward = false;
    if (!send_home(tile, true)) return;
  }
}

// ---- who may run --------------------------------------------------------------------------------------------------

void Spread::unbounce(TaskState& task, const TileState* only) {
  for (auto& held : task.held) {
    if (!held.bounce || (only && held.tile != only)) continue;
    held.bounce = false;
    --held.tile->pins;
    cache_.requeue(*held.tile);
  }
}

void Spread::maybe_claim(TaskState& task) {
  if (task.phase != TaskState::Phase::admitted || task.unmet > 0) return;
  for (const auto& held : task.held)
    if (!ready(task, held)) {
      ++task.arriving;
      held.tile->waiters.push_back(&task);
    }
  if (task.arriving == 0) claim(task);
}

/// Something about the tile changed: copies may start, tasks may be ready.
void Spread::arrived_spread(TileState& tile) {
  serve(tile);
  for (TaskState* task : std::exchange(tile.waiters, {})) {
    const auto held = std::ranges::find_if(task->held, [&](const auto& h) { return h.tile == &tile; });
    if (!ready(*task, *held))
      tile.waiters.push_back(task);
    else if (--task->arriving == 0)
      claim(*task);
  }
}

/// The task may run now: what it changes is its own.
void Spread::claim(TaskState& task) {
  unbounce(task, nullptr);
  for (auto& held : task.held)
    if (held.modifies) claim_tile(*held.tile, task.space);
  if (task.space > 0)
    runnable_devices_[static_cast<std::size_t>(task.space) - 1].insert(&task);
  else
    runnable(task).push(&task);
}

void Spread::claim_tile(TileState& tile, int space) {
  Copies& copies = *tile.copies;
  for (int other = 1; other <= device_count(); ++other) {
    Copy& copy = copies.at(other);
    if (other == space || copy.state == State::invalid) continue;
    if (copy.pins > 0)
      copy.state = State::empty;
    else
      drop_copy(tile, other);
  }
  if (tile.in_memory_array()) strayed_ += (space > 0) - (copies.newest > 0);
  copies.newest = space;
  copies.changing = true;
  if (space == 0) {
    tile.where = Where::resident;
  } else {
    copies.at(space).state = State::valid;
    drop_host(tile);
  }
  cache_.set_open(tile, true);
  cache_.requeue(tile);
  requeue_copies(tile);
}

/// What the host has is old. Memory that somebody holds stays; so does what is being written, until it is.
void Spread::drop_host(TileState& tile) {
  tile.dirty = false;
  if (tile.in_memory_array() || (tile.pins > 0 && !tile.storing)) {
    tile.where = Where::loading;
  } else if (tile.where == Where::resident && !tile.storing) {
    machine_.release(tile);
    cache_.give(tile.bytes);
    tile.where = Where::absent;
  }
}

/// Of a tile whose store has completed: whether it was of a copy that is old by now.
bool Spread::superseded(TileState& tile) {
  if (tile.copies->newest == 0) return false;
  drop_host(tile);
  cache_.requeue(tile);
  return true;
}

// ---- after a task -------------------------------------------------------------------------------------------------

void Spread::drop_copy(TileState& tile, int space) {
  residency(space).drop(tile.copies->at(space));
  if (tile.copies->newest != space) return;
  tile.copies->newest = 0;  // nobody needs it, or it is about to be overwritten
  cache_.set_open(tile, false);
  if (!tile.in_memory_array()) return;
  --strayed_;
  tile.where = Where::resident;
}

void Spread::requeue_copies(TileState& tile) {
  const Copies& copies = *tile.copies;
  for (int space = 1; space <= device_count(); ++space) {
    Copy& copy = tile.copies->at(space);
    if (copy.state == State::invalid) continue;
    if (copy.state != State::valid || copy.pins > 0 || copy.leaving) {
      residency(space).dequeue(copy);
      continue;
    }
    std::uint64_t next = Residency::unused;
    for (const Uses::Use& use : tile.uses)
      if (use.task->space == space) {
        next = use.id;
        break;
      }
    residency(space).queue(copy, next, copies.newest == space && !tile.overwritten_next());
  }
}

/// All of a tile that nobody uses.
void Spread::discard(TileState& tile) {
  Copies& copies = *tile.copies;
  for (int space = 1; space <= device_count(); ++space)
    if (copies.at(space).state != State::invalid) drop_copy(tile, space);
  if (std::exchange(copies.homeward, false)) std::erase(homeward_, &tile);
  if (tile.where == Where::resident && !tile.in_memory_array())
    drop(tile);
  else
    cache_.forget(tile);
}

void Spread::release_spread(TaskState& task, TaskState::Held& held) {
  TileState& tile = *held.tile;
  Copies& copies = *tile.copies;
  --(task.space == 0 ? tile.pins : copies.at(task.space).pins);
  --tile.owner->pending_uses;
  tile.uses.erase(task.id);
  tile.changes -= held.modifies || held.last;
  if (tile.last_writer == &task) tile.last_writer = nullptr;
  std::erase(tile.readers, &task);
  if (held.modifies) {
    copies.changing = false;
    tile.again = held.again, tile.once = held.once;
    if (task.space == 0 && !tile.in_memory_array()) tile.dirty = true;
  }
  const bool still = copies.flights == 0 && !copies.loading && !tile.storing;
  if (tile.uses.empty() && held.last && still && !tile.in_memory_array()) return discard(tile);
  requeue_copies(tile);
  if (copies.newest != 0) {
    if (tile.complete()) send_home(tile, true);
  } else if (tile.settled() && !tile.storing) {
    store(tile);
  } else if (tile.uses.empty() && tile.once && !tile.dirty && tile.evictable()) {
    return discard(tile);
  }
  serve(tile);
  cache_.requeue(tile);
  cache_.forget(tile);
}

/// Of what only a device holds, the rest of store_kept().
void Spread::leave_at_end(TileState& tile, bool end) {
  const bool spoken_of = tile.when == Written::with_checkpoints && !end;
  if (!spoken_of && !tile.complete()) return;
  tile.copies->store_home = spoken_of;
  if (!std::exchange(tile.copies->homeward, true)) homeward_.push_back(&tile);
}

void Spread::memory_may_change() {
  memory_wanted_ = false;
  if (!spread()) return;
  std::vector<TileState*> old;
  cache_.for_each_tile([&](TileState& tile) {
    const bool still = tile.copies && tile.copies->flights == 0 && tile.copies->newest == 0;
    if (still && tile.in_memory_array() && tile.uses.empty()) old.push_back(&tile);
  });
  for (TileState* tile : old) discard(*tile);
}

}  // namespace flagstone
