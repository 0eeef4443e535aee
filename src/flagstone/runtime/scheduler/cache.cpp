#include "flagstone/runtime/scheduler/cache.hpp"

#include <algorithm>
#include <bit>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

// Where order is not trusted, a tile that no startable task wants is further away than any that one wants, whatever
// program order says; among trusted tasks the offset is the same for all and changes nothing.
constexpr TaskId unwanted = TaskId{1} << 62;
constexpr TaskId unknown = 2 * unwanted;  // the next use is by a task that is yet to be added
constexpr TaskId idle = std::numeric_limits<TaskId>::max();

/// Is `box` a cell of the grid of `cell`s over `shape`?
bool on_grid(const Box& box, const Shape& cell, const Shape& shape) {
  for (std::size_t d = 0; d < cell.size(); ++d)
    if (box.start[d] % cell[d] != 0 || box.shape[d] != std::min(cell[d], shape[d] - box.start[d])) return false;
  return true;
}

void check_inside(const Region& region) {
  const Shape& shape = region.array.shape();
  bool inside = region.box.start.size() == shape.size() && region.box.shape.size() == shape.size();
  for (std::size_t d = 0; inside && d < shape.size(); ++d)
    inside =
        region.box.start[d] >= 0 && region.box.shape[d] >= 0 && region.box.start[d] + region.box.shape[d] <= shape[d];
  if (!inside)
    throw ShapeError("graph: the region " + to_string(region.box.shape) + " at " + to_string(region.box.start) +
                     " is not inside the array " + to_string(shape) + ".");
}

}  // namespace

std::size_t ArrayState::Hash::operator()(const Box* box) const noexcept {
  std::uint64_t hash = 0;
  for (const Shape* numbers : {&box->start, &box->shape})
    for (const Index number : *numbers) {
      hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15u;  // Fibonacci hashing
      hash ^= hash >> 32;
    }
  return hash;
}

void Uses::erase(TaskId id) {
  if (uses_[first_].id == id) {
    ++first_;
  } else {
    uses_.erase(std::find_if(uses_.begin() + static_cast<std::ptrdiff_t>(first_), uses_.end(),
                             [&](const Use& use) { return use.id == id; }));
  }
  if (first_ == uses_.size()) {
    uses_.clear();
    first_ = 0;
  } else if (first_ >= 32 && 2 * first_ >= uses_.size()) {  // each is moved once at most, on average
    uses_.erase(uses_.begin(), uses_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

std::size_t size_class(std::size_t bytes) {
  bytes = align_up(bytes);
  if (bytes > MiB) return align_up(bytes, 64 * KiB);
  return align_up(bytes, std::max<std::size_t>(page_bytes, std::bit_floor(bytes) / 8));
}

void TileState::view(Tile& tile) const {
  tile.data = buffer.data() ? buffer.data() + origin : nullptr;
  if (in_memory_array()) {
    tile.data = array.store().memory();
    for (std::size_t d = 0; d < box.start.size(); ++d) tile.data += box.start[d] * strides[d];
  }
  tile.dtype = array.dtype();
  tile.shape = box.shape;
  tile.strides = strides;
  tile.bytes = tile_bytes;
}

bool Cache::Later::operator()(const TileState* a, const TileState* b) const {
  if (a->queued_at != b->queued_at) return a->queued_at < b->queued_at;
  // At equal distance the clean one is the later, so it goes first. As they were queued: an order must not change while
  // tiles lie in it, and a tile that is being stored is clean before it leaves.
  if (a->queued_dirty != b->queued_dirty) return a->queued_dirty;
  return a->number < b->number;
}

TileState& Cache::tile(const Region& region, bool read, bool written) {
  check_inside(region);
  outdated_.clear();  // of a call that threw
  auto& owner = arrays_[region.array.id()];
  if (!owner) {
    owner = std::make_unique<ArrayState>();
    owner->number = ++named_;
    join_file(*owner, region.array);
    look_through(region.array);
  }
  const auto known = owner->tiles.find(&region.box);
  TileState& tile = known != owner->tiles.end() ? *known->second : make(*owner, region);
  measure(tile, read, written);
  FileState* file = owner->file;
  if ((written || owner->written || (file && file->written)) && !tile.checked) check_overlap(*owner, tile);
  if (written && !owner->written) check_not_looked_at(region.array);
  owner->written |= written;
  if (file) file->written |= written;
  return tile;
}

void Cache::join_file(ArrayState& owner, const Array& array) {
  const auto place = file_extent(array);
  if (!place) return;
  owner.place = *place;
  owner.bytes = byte_runs(array, *place, whole(array.shape()));
  FileState& file = files_[{place->device, place->inode}];
  file.place = *place;
  owner.file = &file;
  file.by_first.emplace(owner.bytes.first, &owner);
  file.longest = std::max(file.longest, owner.bytes.end() - owner.bytes.first);
}

/// Notes what a computed array is computed from: tasks that read it depend on no task that writes there.
void Cache::look_through(const Array& array) {
  const auto operands = array.store().operands();
  if (operands.empty() || !lazy_.insert(array.id()).second) return;
  for (const Array& operand : operands) {
    looked_at_.push_back(operand);
    look_through(operand);
  }
  for (const auto& [id, owner] : arrays_)
    if (owner && owner->written && !owner->tiles.empty()) check_not_looked_at(owner->tiles.begin()->second->array);
}

void Cache::check_not_looked_at(const Array& written) const {
  for (const Array& operand : looked_at_) {
    bool same = operand.id() == written.id();
    if (!same && !operand.in_memory() && !written.in_memory()) {
      const auto one = file_extent(operand), other = file_extent(written);
      same =
          one && other && one->device == other->device && one->inode == other->inode &&
          overlap(byte_runs(operand, *one, whole(operand.shape())), byte_runs(written, *other, whole(written.shape())));
    }
    if (same)
      throw ShapeError("graph: '" + written.path() +
                       "' is written, and read through a lazy array that is computed from it; store that one first.");
  }
}

void Cache::leave_file(ArrayState& owner) {
  if (!owner.file) return;
  auto& arrays = owner.file->by_first;
  const auto [from, to] = arrays.equal_range(owner.bytes.first);
  arrays.erase(std::find_if(from, to, [&](const auto& entry) { return entry.second == &owner; }));
  if (arrays.empty()) files_.erase({owner.place.device, owner.place.inode});
}

TileState& Cache::make(ArrayState& owner, const Region& region) {
  auto made = std::make_unique<TileState>();
  TileState& tile = *made;
  tile.array = region.array;
  tile.box = region.box;
  tile.owner = &owner;
  tile.number = ++named_;
  tile.when = when_written(region.array, region.box);
  const Shape& extents = tile.box.shape;
  const bool cell = std::all_of(extents.begin(), extents.end(), [](Index extent) { return extent > 0; });
  if (owner.tiles.empty()) owner.grid.clear();
  if (owner.grid.empty() && cell && on_grid(tile.box, extents, region.array.shape())) owner.grid = extents;
  tile.on_grid = !owner.grid.empty() && on_grid(tile.box, owner.grid, region.array.shape());
  owner.off_grid += !tile.on_grid;
  owner.tiles.emplace(&tile.box, std::move(made));
  if (owner.near) owner.near->insert(tile);
  return tile;
}

/// Asks the layout for the tile's geometry and the staging that reading it needs, at once where it is read: both are
/// told chunk by chunk. And for what writing it needs.
void Cache::measure(TileState& tile, bool read, bool written) {
  if (tile.in_memory_array()) {
    if (std::exchange(tile.measured_read, true)) return;
    tile.strides = tile.array.store().memory_strides();
    tile.tile_bytes = static_cast<std::size_t>(count(tile.box.shape)) * size_of(tile.array.dtype());
    tile.where = TileState::Where::resident;
    return;
  }
  const std::size_t before = tile.bytes;
  if (tile.buffer_bytes == 0 || (read && !tile.measured_read)) {
    const Transfer geometry = tile.array.store().geometry(tile.box);
    if (tile.buffer_bytes == 0) take_geometry(tile, geometry);
    if (read) tile.read_staging = geometry.beside_bytes(), tile.measured_read = true;
  }
  if (written && !std::exchange(tile.measured_write, true))
    tile.write_staging = align_up(tile.array.store().write_staging(tile.box));
  tile.bytes = charged(tile.buffer_bytes) + tile.write_staging;
  if (tile.where == TileState::Where::absent || tile.bytes == before) return;
  // It was resident for reading and is now to be written through staging.
  take(tile.bytes - before);
  if (tile.open) open_bytes_[static_cast<std::size_t>(tile.when)] += tile.bytes - before;
  if (tile.queued && tile.queued_at == idle) idle_clean_bytes_ += tile.bytes - before;
}

void Cache::take_geometry(TileState& tile, const Transfer& geometry) {
  tile.origin = geometry.origin;
  tile.strides = geometry.strides;
  tile.tile_bytes = geometry.tile_bytes;
  tile.buffer_bytes = size_class(std::max<std::size_t>(1, geometry.buffer_bytes));
}

/// Whether nobody uses a tile that overlaps one that is asked for: what it holds is old when that is written.
bool Cache::outdated(TileState& other) {
  if (!other.uses.empty() || other.pins > 0 || other.dirty || other.storing) return false;
  if (other.copies && (other.copies->newest != 0 || other.copies->flights > 0)) return false;
  outdated_.push_back(&other);
  return true;
}

void Cache::check_overlap(ArrayState& owner, TileState& tile) {
  if (!tile.on_grid || owner.off_grid > 0) {
    if (!owner.near) {
      owner.near = std::make_unique<TilesNear>(tile.array.shape());
      for (const auto& [key, known] : owner.tiles) owner.near->insert(*known);
    }
    owner.near->for_each(tile.box, [&](TileState& other) {
      if (&other != &tile && overlap(other.box, tile.box) && !outdated(other))
        throw ShapeError("graph: regions " + to_string(tile.box.shape) + " at " + to_string(tile.box.start) + " and " +
                         to_string(other.box.shape) + " at " + to_string(other.box.start) +
                         " of one array overlap and one of them is written; use equal or disjoint boxes.");
    });
  }
  if (owner.file && owner.file->by_first.size() > 1) check_file(owner, tile);
  tile.checked = true;
}

/// Against the tiles of other arrays of the file. Cost: those arrays that could reach so far, and of those that do
/// reach all tiles that are known now.
void Cache::check_file(const ArrayState& owner, const TileState& tile) {
  const FileState& file = *owner.file;
  const ByteRuns mine = byte_runs(tile.array, owner.place, tile.box);
  const std::uint64_t end = mine.end();
  auto at = file.by_first.lower_bound(mine.first > file.longest ? mine.first - file.longest : 0);
  for (; at != file.by_first.end() && at->first < end; ++at) {
    const ArrayState& other = *at->second;
    if (&other == &owner || !overlap(other.bytes, mine)) continue;
    for (const auto& [key, theirs] : other.tiles)
      if (overlap(byte_runs(theirs->array, other.place, theirs->box), mine) && !outdated(*theirs))
        throw ShapeError("graph: the region " + to_string(tile.box.shape) + " at " + to_string(tile.box.start) +
                         " overlaps the region " + to_string(theirs->box.shape) + " at " +
                         to_string(theirs->box.start) + " of another handle or pointer to the same file, '" +
                         tile.array.path() + "', and one of them is written; name both as boxes of one array.");
  }
}

void Cache::forget(TileState& tile) {
  const bool needed = !tile.uses.empty() || tile.pins > 0 || tile.storing || tile.dirty ||
                      (!tile.in_memory_array() && tile.where != TileState::Where::absent) ||
                      (tile.copies && tile.copies->any());
  if (needed) return;
  dequeue(tile);
  ArrayState& owner = *tile.owner;
  const void* id = tile.array.id();
  owner.off_grid -= !tile.on_grid;
  if (owner.near) owner.near->erase(tile);
  const auto held = owner.tiles.extract(&tile.box);  // the key is part of what goes
  if (!owner.tiles.empty()) return;
  leave_file(owner);
  arrays_.erase(id);
}

void Cache::set_open(TileState& tile, bool open) {
  if (tile.open == open || tile.in_memory_array()) return;
  tile.open = open;
  std::uint64_t& bytes = open_bytes_[static_cast<std::size_t>(tile.when)];
  bytes = open ? bytes + tile.bytes : bytes - tile.bytes;
}

void Cache::dequeue(TileState& tile) {
  if (!tile.queued) return;
  tile.queued = false;
  if (tile.queued_at == idle) {
    tile.owner->idle.erase(tile.idle_place);
    idle_clean_bytes_ -= tile.bytes, --idle_clean_tiles_;
  } else {
    queue_of(tile).erase(&tile);
  }
}

void Cache::requeue(TileState& tile) {
  dequeue(tile);
  if (!tile.evictable() || tile.settled()) return;
  tile.queued = true;
  if (tile.uses.empty() && !tile.dirty) {
    tile.queued_at = idle;
    tile.idle_place = tile.owner->idle.insert(tile.owner->idle.end(), &tile);
    idle_clean_bytes_ += tile.bytes, ++idle_clean_tiles_;
  } else {
    tile.queued_at = tile.uses.empty() ? unknown : tile.uses.front().id + (tile.wanted == 0 ? unwanted : 0);
    tile.queued_dirty = tile.dirty && !tile.overwritten_next();
    queue_of(tile).insert(&tile);
  }
}

TileState* Cache::free_victim() const {
  TileState* best = nullptr;
  for (const auto& [id, array] : arrays_) {
    if (array->idle.empty()) continue;
    TileState* tile = array->idle.back();
    const bool unused = array->pending_uses == 0, best_unused = best && best->owner->pending_uses == 0;
    if (!best || unused > best_unused || (unused == best_unused && array->number > best->owner->number)) best = tile;
  }
  return best;
}

TileState* Cache::costly_victim(bool dirty_too) const {
  TileState* clean = clean_.empty() ? nullptr : *clean_.rbegin();
  if (!dirty_too || dirty_.empty()) return clean;
  TileState* dirty = *dirty_.rbegin();
  return !clean || Later()(clean, dirty) ? dirty : clean;
}

}  // namespace flagstone
