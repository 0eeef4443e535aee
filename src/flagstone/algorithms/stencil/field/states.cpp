#include "flagstone/algorithms/stencil/field/states.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/field/work.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone::stencil {
namespace {

/// A range of a state := what others hold of it, one of the task's tiles each.
struct CopyWork final : StencilWork {
  std::shared_ptr<const Problem> problem;
  Range3 made;
  std::vector<Range3> cells;

  void run(std::span<const Tile> tiles) const override {
    for (std::size_t i = 0; i < cells.size(); ++i)
      kernel::copy_points(points_of(*problem, tiles[i], cells[i]), points_of(*problem, tiles.back(), made),
                          kernel::intersect(cells[i], made), problem->space.item);
  }
};

constexpr Index places = 3;  // where epochs are saved: read, written, kept

Shape shape_of(const Problem& problem, const Axes& axes) {
  Shape shape;
  for (const std::size_t d : problem.axes) shape.push_back(axes[d]);
  return shape;
}

std::span<std::byte> traces_of(const Problem& problem) {
  const auto bytes = static_cast<std::size_t>(count(problem.traces.shape())) * problem.space.item;
  return {problem.traces.store().memory(), bytes};
}

/// f(name of a checkpoint's part, values) of every reduction of every field.
template <class F>
void each_values(const Problem& problem, const F& f) {
  for (std::size_t field = 0; field < problem.reductions.size(); ++field) {
    if (!problem.reductions[field]) continue;
    for (const FoldKind kind : problem.reductions[field]->wish().kinds)
      f("reduction " + std::to_string(static_cast<int>(kind)) + (field > 0 ? " " + std::to_string(field) : ""),
        problem.reductions[field]->values(kind));
  }
}

}  // namespace

States::States(Graph& graph, std::shared_ptr<const Problem> problem, Index supersteps, const Axes& cell, Index held)
    : graph_(graph),
      problem_(std::move(problem)),
      supersteps_(supersteps),
      cell_(cell),
      held_(problem_->saved ? 0 : held),
      turns_(static_cast<std::size_t>(places) * problem_->order()) {
  // In memory from the start: what a plan says of the first task holds for all.
  for (Index place = 0; !problem_->saved && place < std::min<Index>(2, supersteps - 1); ++place) make(place);
  if (problem_->first > 0 && problem_->checkpoint) take_over(load_epoch(*problem_).cell);
}

void States::take_over(const Axes& cell) {
  const Index place = saved_ = first_ = load_epoch(*problem_).place;
  std::vector<Array> kept;
  for (std::size_t state = 0; state < problem_->order(); ++state)
    kept.push_back(epoch_state(*problem_, place, state, cell, true));
  if (cell == cell_) {
    for (std::size_t state = 0; state < kept.size(); ++state) turn(place, state).rest = kept[state];
    return;
  }
  make(first_ = free_place(place));
  copy(
      [&](std::size_t state, const Range3& range) {
        return Region{kept[state], problem_->box(range)};
      },
      cell, [&](std::size_t state, const Range3& range) { return region(first_, state, range); }, cell_);
}

Index States::free_place(Index used) const {
  Index place = 0;
  while (place == used || place == saved_) ++place;
  return place;
}

States::Turn& States::turn(Index place, std::size_t state) {
  return turns_[static_cast<std::size_t>(place) * problem_->order() + state];
}

void States::begin(Index s) {
  if (is_result(s)) return;
  written_.push_back(free_place(input(s)));
  make(written_.back());
}

void States::make(Index place) {
  const Shape& shape = problem_->from[0].shape();
  Shape kept = shape, rest = shape;
  kept[0] = std::min(held_, rest[0]), rest[0] -= kept[0];
  for (std::size_t state = 0; state < problem_->order(); ++state) {
    Turn& made = turn(place, state);
    if (made.held || made.rest) continue;
    if (kept[0] > 0) made.held = graph_.allocate(kept, problem_->dtype);
    if (rest[0] == 0) continue;
    const Shape tile = shape_of(*problem_, cell_);
    made.rest = problem_->saved && problem_->checkpoint && !graph_.planning()
                    ? epoch_state(*problem_, place, state, cell_, false)
                    : temporary_array(rest, problem_->dtype, tile, problem_->scratch, Written::streamed);
  }
}

Region States::region(Index place, std::size_t state, Range3 range) const {
  const Turn& at = turns_[static_cast<std::size_t>(place) * problem_->order() + state];
  const std::size_t d = first_axis(*problem_);
  if (range.first[d] < held_) return {at.held, problem_->box(range)};
  range.first[d] -= held_, range.last[d] -= held_;
  return {at.rest, problem_->box(range)};
}

Region States::in(Index s, std::size_t state, const Range3& range) const {
  return reads_turn(s) ? region(input(s), state, range) : Region{problem_->from[state], problem_->box(range)};
}

Region States::out(Index s, std::size_t state, const Range3& range) const {
  if (is_result(s)) return {problem_->to[state], problem_->box(range)};
  return region(written_[static_cast<std::size_t>(s)], state, range);
}

void States::copy(const RegionOf& from, const Axes& cell, const RegionOf& to, const Axes& unit) const {
  for (std::size_t state = 0; state < problem_->order(); ++state)
    each_box(*problem_, problem_->space.whole(), unit, [&](const Range3& made) {
      TaskSpec task;
      task.name = "stencil_copy";
      std::vector<Range3> cells;
      each_box(*problem_, made, cell, [&](const Range3& range) {
        task.accesses.push_back(read(from(state, range)));
        cells.push_back(range);
      });
      task.accesses.push_back(once(write(to(state, made))));
      task.cost.bytes_touched = 2 * static_cast<double>(made.count() * problem_->item());
      auto work = std::make_shared<CopyWork>();
      work->problem = problem_, work->made = made, work->cells = std::move(cells);
      task.calls = {call_of(*problem_, std::move(work), 0, Kernel::stencil_copy)};
      graph_.add(std::move(task));
    });
}

void States::finish(Index s, const Axes& unit) {
  if (is_result(s)) return;
  copy([&](std::size_t state, const Range3& range) { return in(s + 1, state, range); }, cell_,
       [&](std::size_t state, const Range3& range) {
         return Region{problem_->to[state], problem_->box(range)};
       },
       unit);
}

void States::end(Index s, Index step) {
  Checkpoint* const checkpoint = problem_->checkpoint.get();
  if (!checkpoint || graph_.planning() || is_result(s) || !graph_.agree(checkpoint->due())) return;
  graph_.drain();
  const Epoch epoch{step, written_[static_cast<std::size_t>(s)], cell_};
  for (std::size_t state = 0; state < problem_->order(); ++state) turn(epoch.place, state).rest.store().checkpoint();
  save_epoch(*problem_, epoch);
  saved_ = epoch.place;
}

Array epoch_state(const Problem& problem, Index place, std::size_t state, const Axes& cell, bool there) {
  const Shape &shape = problem.from[0].shape(), tile = shape_of(problem, cell);
  const std::string path =
      problem.checkpoint->directory() + "/state" + std::to_string(place) + "-" + std::to_string(state);
  const auto tiles = there ? static_cast<std::size_t>(count(grid_of(shape, tile))) : 0;
  return kept_array(shape, problem.dtype, tile, path, std::vector<std::uint8_t>(tiles, 1), Written::streamed);
}

void save_epoch(const Problem& problem, const Epoch& epoch) {
  for (const Snapshot& snapshot : problem.snapshots) snapshot.to.store().checkpoint();
  std::vector<Checkpoint::Part> parts{Checkpoint::part("epoch", &epoch, 1)};
  const std::span<std::byte> traces = traces_of(problem);
  parts.push_back(Checkpoint::part("traces", traces.data(), traces.size()));
  each_values(problem, [&](const std::string& name, const std::vector<std::byte>& values) {
    parts.push_back(Checkpoint::part(name, values.data(), values.size()));
  });
  problem.checkpoint->save(static_cast<double>(epoch.step) / static_cast<double>(problem.steps), parts);
}

Epoch load_epoch(const Problem& problem) {
  Epoch epoch;
  if (!problem.checkpoint || !problem.checkpoint->has("epoch")) return epoch;
  problem.checkpoint->load("epoch", &epoch, sizeof epoch);
  const std::span<std::byte> traces = traces_of(problem);
  problem.checkpoint->load("traces", traces.data(), traces.size());
  each_values(problem, [&](const std::string& name, std::vector<std::byte>& values) {
    problem.checkpoint->load(name, values.data(), values.size());
  });
  return epoch;
}

}  // namespace flagstone::stencil
