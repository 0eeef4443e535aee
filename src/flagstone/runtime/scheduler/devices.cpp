// What of a run with devices is theirs alone: which tasks they get, room in their memories, what goes out together.
#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/scheduler/spread.hpp"

namespace flagstone {
namespace {

using State = Copy::State;

constexpr std::uint64_t without_end = std::uint64_t{1} << 60;
constexpr std::size_t last_dimension = ~std::size_t{0};
constexpr std::size_t most_batched = 64;    // tasks of one launch
constexpr std::size_t most_compared = 256;  // runnable tasks that are looked at for one
constexpr TaskId well_ahead = 256;
constexpr std::uint64_t few_admitted = 8;  // tasks with which a device could run dry

bool same_part(const TilePart& a, const TilePart& b) {
  return a.access == b.access && a.transpose == b.transpose && a.conjugate == b.conjugate && a.part == b.part;
}

bool same_call(const Call& a, const Call& b) {
  const auto ours = a.operands(), theirs = b.operands();
  return a.kernel == b.kernel && a.dtype == b.dtype && a.semiring == b.semiring && a.alpha == b.alpha &&
         a.beta == b.beta && a.value == b.value &&
         std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same_part);
}

bool same_tile(const TileState* a, const TileState* b) {
  if (!a || !b) return a == b;
  return a->box.shape == b->box.shape && a->array.dtype() == b->array.dtype() &&
         a->copies->strides == b->copies->strides;
}

/// What one launch may hold: equal calls on tiles of equal extents.
bool same_work(const TaskState& a, const TaskState& b) {
  return a.workspace_bytes == b.workspace_bytes && std::ranges::equal(a.spec.calls, b.spec.calls, same_call) &&
         std::ranges::equal(a.operands, b.operands, same_tile);
}

Spaces with_place(Spaces spaces) {
  if (!spaces.place && !spaces.devices.empty())
    spaces.place = cyclic(static_cast<int>(spaces.devices.size()), last_dimension);
  return spaces;
}

}  // namespace

Spread::Spread(std::uint64_t capacity, Machine& machine, Spaces spaces)
    : cache_(capacity),
      machine_(machine),
      spaces_(with_place(std::move(spaces))),
      runnable_devices_(spaces_.devices.size()) {
  runnable_sockets_.resize(spaces_.sockets);
  for (const auto& device : spaces_.devices)
    residencies_.emplace_back(device->properties().name, spaces_.unlimited ? without_end : device->properties().memory);
}

Spread::PlacedArray& Spread::placed(const Region& region) {
  PlacedArray& known = placed_arrays_[region.array.id()];
  if (const auto& store = region.array.shared_store(); known.store.lock() != store) known = {store, {}, {}};
  if (known.tile.empty()) {
    known.tile = region.box.shape;
    for (Index& extent : known.tile) extent = std::max<Index>(1, extent);
  }
  return known;
}

void Spread::place_array(const Array& array, Shape tile, std::function<int(const Shape&)> place) {
  if (spread()) placed_arrays_[array.id()] = {array.shared_store(), std::move(tile), std::move(place)};
}

Shape Spread::place_of(const Region& region) {
  const Shape& tile = placed(region).tile;
  Shape at(tile.size());
  for (std::size_t d = 0; d < at.size(); ++d) at[d] = region.box.start[d] / tile[d];
  return at;
}

/// By the place of the first tile that the task changes, if the device there has all its kernels.
int Spread::space_of(const TaskState& task) {
  if (task.host) return 0;
  const auto changed = std::ranges::find_if(task.held, [](const auto& held) { return held.modifies; });
  if (changed == task.held.end()) return 0;
  const Region region{changed->tile->array, changed->tile->box};
  const Shape at = place_of(region);
  const int devices = device_count();
  const auto& of_array = placed(region).place;
  const int space = of_array ? of_array(at) : spaces_.place(region, at);
  if (space < 0 || space > devices)
    throw Error("place: space " + std::to_string(space) + " was named for '" + task.spec.name +
                "'; give 0, the host, " + "or the number of a device, " + std::to_string(devices) + " at most.");
  if (space == 0) return 0;
  const auto refuse = [&](const std::string& why) {
    if (spaces_.strict)
      throw Error("Runtime: '" + task.spec.name + "' " + why + "; without strict=True it runs on the host.");
    return 0;
  };
  if (task.spec.body || task.spec.calls.empty()) return refuse("is a function of the host, which no device can call");
  for (const auto& held : task.held)
    if (held.tile->tile_bytes != held.tile->copies->bytes) return refuse("reads chunks as they are packed");
  for (const Call& call : task.spec.calls)
    if (!device(space).runs(call))
      return refuse("needs the kernel " + std::string(name_of(call.kernel)) + " of " +
                    std::string(name_of(call.dtype)) + ", which " + residencies_[space - 1].name() + " lacks");
  return space;
}

/// Chooses the task's space, and measures what it needs there.
void Spread::put_on_device(TaskState& task) {
  for (auto& held : task.held) {
    TileState& tile = *held.tile;
    if (tile.copies) continue;
    tile.copies = std::make_unique<Copies>();
    tile.copies->on.resize(residencies_.size());
    for (Copy& copy : tile.copies->on) copy.tile = &tile;
    tile.copies->strides = packed_like(tile.strides, tile.box.shape, size_of(tile.array.dtype()));
    tile.copies->bytes = static_cast<std::size_t>(count(tile.box.shape)) * size_of(tile.array.dtype());
  }
  task.space = space_of(task);
  if (task.space == 0) return;
  std::size_t scratch = 0;
  for (const Access& access : task.spec.accesses)
    if (access.mode == Mode::scratch) scratch += Arena::charged(access.scratch_bytes);
  std::vector<Tile> tiles;
  tiles_on_device(task, nullptr, tiles);
  const std::size_t workspace = device(task.space).workspace_bytes(task.spec.calls, tiles);
  task.workspace_bytes = scratch + (workspace > 0 ? Arena::charged(workspace) : 0);
  Residency& here = residency(task.space);
  std::uint64_t need = task.workspace_bytes;
  for (const auto& held : task.held) need += Arena::charged(held.tile->copies->bytes);
  here.least = std::max(here.least, need);
  if (need > here.capacity())
    throw BudgetError(task.spec.name + ": needs " + format_bytes(need) + " of " + here.name() + ", which has " +
                          format_bytes(here.capacity()) + "; give the device more memory=.",
                      need);
}

void Spread::tiles_on_device(const TaskState& task, std::byte* memory, std::vector<Tile>& tiles) const {
  tiles.resize(task.operands.size());
  std::byte* scratch = memory ? memory + task.workspace_offset : nullptr;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    Tile& tile = tiles[i];
    if (const TileState* state = task.operands[i]) {
      const Copies& copies = *state->copies;
      tile.data = memory ? memory + copies.at(task.space).offset : nullptr;
      tile.dtype = state->array.dtype();
      tile.shape = state->box.shape;
      tile.strides = copies.strides;
      tile.bytes = copies.bytes;
      continue;
    }
    const std::size_t bytes = task.spec.accesses[i].scratch_bytes;
    tile = {scratch, Dtype::uint8, {static_cast<Index>(bytes)}, {1}, bytes};
    if (scratch) scratch += Arena::charged(bytes);
  }
}

/// Bytes of the host's that the task cannot do without: its operands may all come through there, and what it makes
/// leaves that way.
std::uint64_t Spread::host_need(const TaskState& task) const {
  std::uint64_t in = 0, out = 0;
  for (const auto& held : task.held) {
    const TileState& tile = *held.tile;
    if (held.reads) in += tile.bytes + tile.read_staging;
    if (held.modifies) out = std::max<std::uint64_t>(out, tile.bytes);
  }
  return std::max(in, out);
}

/// Memory in the device for all tiles that it has not, and for what the task itself needs; all or nothing.
bool Spread::place_on_device(TaskState& task) {
  Residency& here = residency(task.space);
  for (;;) {
    placed_.clear(), sizes_.clear();
    for (const auto& held : task.held) {
      Copies& copies = *held.tile->copies;
      if (copies.at(task.space).state != State::invalid) continue;
      placed_.push_back(&copies.at(task.space));
      sizes_.push_back(Arena::charged(copies.bytes));
    }
    if (task.workspace_bytes > 0) sizes_.push_back(task.workspace_bytes);
    if (sizes_.empty()) return true;
    const auto offsets = here.take(sizes_);
    if (!offsets) {
      if (!make_device_room(task)) return false;
      continue;
    }
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      placed_[i]->offset = (*offsets)[i];
      placed_[i]->state = State::empty;
      here.settle(*placed_[i]);
    }
    if (task.workspace_bytes > 0) task.workspace_offset = offsets->back();
    return true;
  }
}

/// What place_on_device took, for a task that is not admitted after all.
void Spread::take_back(TaskState& task) {
  Residency& here = residency(task.space);
  for (Copy* copy : placed_) here.drop(*copy);
  if (task.workspace_bytes > 0) here.give(task.workspace_offset);
}

/// Frees something, or sees to it that something will be free; false: it has to be waited for. What costs nothing goes
/// first; then what is needed far behind this task; what would have to be copied out only where the device runs dry.
bool Spread::make_device_room(TaskState& task) {
  Residency& here = residency(task.space);
  Copy* clean = here.clean_victim();
  if (clean && clean->queued_at == Residency::unused) return evict_copy(*clean, task.space);
  std::uint64_t total = 0, largest = 0;
  for (const std::uint64_t size : sizes_) total += size, largest = std::max(largest, size);
  const bool alone = here.admitted == 0;
  if (here.free() + here.leaving_bytes >= total) {
    if (here.leaving_bytes > 0) return false;
    bool began = false;  // there is room, in pieces
    for (Copy* copy : here.window(largest, alone)) began |= evict_copy(*copy, task.space);
    if (began) return true;
    if (!alone) return false;
  }
  const auto far_off = [&](const Copy* copy) { return copy->queued_at > task.id + far_ahead; };
  Copy* dirty = here.dirty_victim();
  Copy* leaves = clean && (alone || far_off(clean)) ? clean : nullptr;
  // What no task in sight uses again may be wanted by the next that is added, where the builder is hardly ahead.
  const bool known = dirty && (dirty->queued_at != Residency::unused || next_id_ > task.id + well_ahead);
  const bool dry = known && here.admitted < few_admitted;
  if (dirty && (alone || (dry && far_off(dirty))) && (!leaves || dirty->queued_at > leaves->queued_at)) leaves = dirty;
  if (leaves) return evict_copy(*leaves, task.space);
  return alone && clear_own(task);
}

/// Nothing else is left to go: the task's own tiles lie in the way of one another.
bool Spread::clear_own(TaskState& task) {
  bool began = false;
  for (auto& held : task.held) {
    Copy& copy = held.tile->copies->at(task.space);
    if (copy.state != State::valid || copy.pins > 1 || copy.leaving) continue;
    began |= evict_copy(copy, task.space);
  }
  return began;
}

/// True: its memory is free, or will be.
bool Spread::evict_copy(Copy& copy, int space) {
  TileState& tile = *copy.tile;
  if (tile.copies->newest == space && !tile.overwritten_next()) {
    if (!send_home(tile, false)) return false;
    residency(space).dequeue(copy);
    copy.evicting = true;
    residency(space).leaving_bytes += Arena::charged(tile.copies->bytes);
  } else {
    drop_copy(tile, space);
    cache_.forget(tile);
  }
  return true;
}

void Spread::leave_device(TaskState& task) {
  Residency& here = residency(task.space);
  --here.admitted;
  if (task.workspace_bytes > 0) here.give(task.workspace_offset);
}

std::vector<SpaceStatistics> Spread::space_statistics(const Statistics& now) const {
  if (residencies_.empty()) return {};
  std::vector<SpaceStatistics> spaces;
  spaces.reserve(1 + residencies_.size());
  spaces.emplace_back();
  SpaceStatistics& host = spaces[0];
  host.name = "host";
  host.budget = now.budget, host.peak = now.peak_budget;
  host.bytes_in = now.bytes_read, host.bytes_out = now.bytes_written;
  host.tasks = now.tasks, host.busy_seconds = now.worker_busy_seconds;
  for (const Residency& residency : residencies_) {
    spaces.push_back(residency.statistics());
    host.tasks -= spaces.back().tasks;
  }
  return spaces;
}

std::size_t Spread::runnable_anywhere() const {
  std::size_t tasks = runnable_.size();
  for (const Runnable& socket : runnable_sockets_) tasks += socket.size();
  for (const auto& device : runnable_devices_) tasks += device.size();
  return tasks;
}

std::vector<TaskState*> Spread::take_batch(int space) {
  auto& from = runnable_devices_[static_cast<std::size_t>(space) - 1];
  std::vector<TaskState*> batch;
  if (from.empty()) return batch;
  const TaskState& first = **from.begin();
  std::size_t seen = 0;
  for (auto it = from.begin(); it != from.end() && batch.size() < most_batched && seen < most_compared; ++seen) {
    if (!batch.empty() && !same_work(**it, first)) {
      ++it;
      continue;
    }
    (*it)->phase = TaskState::Phase::running;
    batch.push_back(*it);
    it = from.erase(it);
  }
  SpaceStatistics& counts = residency(space).counts;
  ++counts.launches, counts.tasks += batch.size();
  return batch;
}

}  // namespace flagstone
