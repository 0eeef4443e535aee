#include "flagstone/algorithms/stencil/skewed/band_step.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/stencil/field/field_stage.hpp"
#include "flagstone/algorithms/stencil/schedules/block_step.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {
namespace {

class Stepper {
 public:
  Stepper(const BandStep& step, std::span<const Tile> tiles)
      : step_(step),
        tile_(*step.tile),
        problem_(*tile_.problem),
        slots_(*tile_.slots),
        tiles_(tiles),
        range_(step.range()),
        filled_(2 * fields()) {
    for (std::size_t c = 0; c < problem_.coefficients.size(); ++c) given_.push_back(points(slots_.number() + c));
  }

  void run() {
    problem_.fields() ? stage() : step();
    if (step_.ends_step()) end_step();
    if (step_.level < tile_.levels) ghosts();
  }

 private:
  std::size_t fields() const { return slots_.versions().fields(); }
  const std::vector<std::size_t>& replaced() const { return slots_.versions().replaced(step_.level); }
  kernel::Points points(std::size_t part) const { return step_.named.points(tile_, tiles_, part, step_.band); }
  /// A field as it is after a level.
  kernel::Points after(std::size_t field, Index level) const { return points(slots_.after(field, level)); }
  std::byte* scratch() const { return tiles_[step_.scratch].data; }
  std::byte* kernel_scratch() const {
    return scratch() + align_up(2 * fields() * static_cast<std::uint64_t>(tile_.plane), 64);
  }

  void step() {
    const kernel::Points to = after(0, step_.level);
    const auto near = [&](Index plane, Index y, Index x) -> const std::byte* { return neighbour(0, plane, y, x); };
    step_on(problem_, {near, tile_.pitch, to, to, given_}, range_, tile_.rows, kernel_scratch());
  }

  /// Plane by plane, and what the level carries over.
  void stage() {
    const FieldStage& stage = tile_.stage(step_.level);
    const Index reach = stage.radius()[0], width = 2 * reach + 1, y = range_.first[1], x = range_.first[2];
    std::vector<kernel::Points> to(fields());
    for (const std::size_t field : replaced()) to[field] = after(field, step_.level);
    std::vector<std::byte*> near(fields() * static_cast<std::size_t>(width));
    Range3 one = range_;
    const auto place = [&](std::size_t field, const Axes& at) {
      const auto beside = static_cast<std::size_t>(at[0] - one.first[0] + reach);
      return near[field * static_cast<std::size_t>(width) + beside] + (at[1] - y) * tile_.pitch +
             (at[2] - x) * problem_.item();
    };
    for (Index z = range_.first[0]; z < range_.last[0]; ++z) {
      one.first[0] = z, one.last[0] = z + 1;
      for (std::size_t i = 0; i < near.size(); ++i)
        near[i] = neighbour(i / static_cast<std::size_t>(width),
                            z - reach + static_cast<Index>(i % static_cast<std::size_t>(width)), y, x);
      stage.run(one, place, to, given_, kernel_scratch());
    }
    for (const std::size_t field : replaced())
      if (std::ranges::none_of(stage.replaced(), [&](const auto& own) { return own.first == field; }))
        kernel::copy_points(after(field, step_.level - 1), to[field], range_, problem_.space.item);
  }

  /// Element (y, x) of a plane that the level reads; beyond an edge of the plane whose values it has, or of one of
  /// fixed values.
  std::byte* neighbour(std::size_t field, Index plane, Index y, Index x) {
    const kernel::GhostSource found = tile_.source(plane);
    const std::size_t slot = slots_.after(field, step_.level - 1);
    if (found.kind == kernel::GhostSource::inside)
      return step_.named.points(tile_, tiles_, slot, tile_.band_of(found.at)).at(found.at, y, x);
    const std::size_t side = 2 * field + (found.kind == kernel::GhostSource::high ? 1 : 0);
    kernel::Points beyond = points(slot);
    beyond.data = scratch() + side * static_cast<std::size_t>(tile_.plane), beyond.first[0] = plane;
    if (!filled_[side]) {
      filled_[side] = true;
      const kernel::Space space = tile_.flat(step_.level - 1);
      Range3 all = tile_.held;
      all.first[0] = plane, all.last[0] = plane + 1;
      kernel::fill_side(space, 0, side % 2 == 1, beyond, all);
      kernel::fill_ghosts(space, beyond, all, tile_.open);
    }
    return beyond.at(plane, y, x);
  }

  /// What a step leaves: sources, and what observers and receivers get.
  void end_step() {
    const Index step = tile_.steps_at(step_.level);
    for (const std::size_t field : replaced()) inject(problem_, step, after(field, step_.level), range_, field);
    for (const BandStep::Trace& trace : step_.traces)
      std::memcpy(tiles_[trace.access].data,
                  after(trace.field, step_.level).at(trace.point[0], trace.point[1], trace.point[2]),
                  problem_.space.item);
    if (problem_.snapshots.empty() && problem_.reductions.empty()) return;
    std::vector<kernel::Points> before, now;
    for (std::size_t field = 0; field < fields(); ++field) {
      now.push_back(after(field, step_.level));
      before.push_back(problem_.reductions.empty() ? now.back()
                                                   : after(field, step_.level - slots_.versions().stages()));
    }
    step_.observed.see(step, before, now, step_.shown(), tiles_);
  }

  void ghosts() {
    const Range3 next = tile_.around(step_.level + 1);
    if (next.empty()) return;
    const kernel::Space space = tile_.flat(step_.level);
    for (const std::size_t field : replaced())
      for (Index z = range_.first[0]; z < range_.last[0]; ++z) {
        Range3 plane = next;
        plane.first[0] = z, plane.last[0] = z + 1;
        kernel::fill_ghosts(space, after(field, step_.level), plane, tile_.open);
      }
  }

  const BandStep& step_;
  const BandTile& tile_;
  const Problem& problem_;
  const Slots& slots_;
  std::span<const Tile> tiles_;
  Range3 range_;
  std::vector<bool> filled_;  // planes beyond the edges of axis 0, of each field and side
  std::vector<kernel::Points> given_;
};

}  // namespace

void BandStep::run(std::span<const Tile> tiles) const { Stepper(*this, tiles).run(); }

Index BandStep::reach() const {
  return tile->problem->fields() ? tile->stage(level).radius()[0] : tile->versions().radius()[0];
}

double BandStep::flops() const {
  return tile->problem->fields() ? tile->stage(level).flops() : tile->problem->kernel->flops();
}

std::uint64_t BandStep::scratch_bytes(const Problem& problem, std::uint64_t plane) {
  const std::uint64_t fields = problem.fields() ? problem.order() : 1;
  return align_up(2 * fields * plane, 64) + problem.kernel_scratch();
}

}  // namespace flagstone::stencil
