#include "flagstone/runtime/scheduler/whereabouts.hpp"

#include <algorithm>

namespace flagstone {
namespace {

using Where = TileState::Where;
using State = Copy::State;

}  // namespace

bool valid_on_host(const TileState& tile) { return tile.where == Where::resident && tile.copies->newest == 0; }

bool empty_on_host(const TileState& tile) {
  return tile.where == Where::loading && !tile.copies->loading &&
         std::ranges::none_of(tile.copies->on, [](const Copy& copy) { return copy.leaving; });
}

int held_by(const TileState& tile) {
  const Copies& copies = *tile.copies;
  if (copies.changing) return nobody;
  if (copies.newest != 0) return copies.newest;
  const auto valid = std::ranges::find(copies.on, State::valid, &Copy::state);
  return valid == copies.on.end() ? nobody : 1 + static_cast<int>(valid - copies.on.begin());
}

int writer_before(const TileState& tile, const TaskState& task) {
  int space = nobody;
  if (tile.changes == 0) return space;
  for (const Uses::Use& use : tile.uses) {
    if (use.id >= task.id) break;
    if (use.modifies) space = use.task->space;
  }
  return space;
}

bool comes_through_host(const TileState& tile, const TaskState& task) {
  if (const int writer = writer_before(tile, task); writer != nobody) return writer != task.space;
  const State state = tile.copies->at(task.space).state;
  return state == State::invalid || state == State::empty;
}

bool ready(const TaskState& task, const TaskState::Held& held) {
  const TileState& tile = *held.tile;
  const Copies& copies = *tile.copies;
  if (held.modifies && (copies.flights > 0 || copies.loading)) return false;
  if (task.space == 0) {
    if (held.modifies && tile.storing) return false;
    return held.reads ? valid_on_host(tile) : tile.where != Where::absent;
  }
  const State state = copies.at(task.space).state;
  return state == State::valid || (!held.reads && state == State::empty);
}

}  // namespace flagstone
