#pragma once
// Where the content of a tile is, of several memories, and whether a task may look at it there: questions alone, of
// tiles that have Copies.
#include "flagstone/runtime/scheduler/task_state.hpp"

namespace flagstone {

constexpr int nobody = -1;  // instead of a space

/// The host's copy is the tile as it is.
bool valid_on_host(const TileState& tile);
/// The host has memory for it that nothing is on its way to.
bool empty_on_host(const TileState& tile);
/// The first device that holds the tile as it is, of those that may be looked at; or nobody.
int held_by(const TileState& tile);
/// The space of the last task before this one that is to change the tile, or nobody: what it makes is what is read.
int writer_before(const TileState& tile, const TaskState& task);
/// Whether a device gets what its task reads by way of the host.
bool comes_through_host(const TileState& tile, const TaskState& task);
/// With all earlier tasks done: whether the task may look at this tile, or change it.
bool ready(const TaskState& task, const TaskState::Held& held);

}  // namespace flagstone
