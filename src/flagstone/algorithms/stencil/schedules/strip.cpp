#include "flagstone/algorithms/stencil/schedules/strip.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/stencil/field/field_stage.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {
namespace {

class Strip {
 public:
  Strip(const StripWork& work, std::span<const Tile> tiles)
      : work_(work),
        problem_(*work.problem),
        levels_(*work.levels),
        versions_(levels_.versions()),
        tiles_(tiles),
        flat_(problem_.space),
        reach_(versions_.radius()[0]),
        planes_(static_cast<std::size_t>(2 * reach_ + 1)),
        rows_(problem_.coefficients.size()) {
    flat_.radius = versions_.radius();
    flat_.radius[0] = 0;
  }

  void run() {
    const Interval fronts = levels_.fronts(work_.batch);
    for (Index group = 0; group < levels_.groups(); ++group)
      for (Index front = fronts.first; front < fronts.last; ++front) {
        if (group == 0) load(front + reach_);
        for (Index level = levels_.first_of(group); level <= levels_.last_of(group); ++level)
          compute(level, levels_.plane_at(level, front));
      }
  }

 private:
  Index strip() const { return work_.strip; }
  std::size_t fields() const { return versions_.fields(); }
  bool of(Index level, Index plane) const {
    const Interval planes = levels_.planes(level);
    return plane >= planes.first && plane < planes.last;
  }
  /// Of a field that the level replaces.
  kernel::Points ring(Index level, Index plane, std::size_t field = 0) const {
    return levels_.in_ring(tiles_[work_.ring].data, level, strip(), plane, field);
  }
  /// The plane of the field that a plane beyond a periodic edge is.
  Index image(Index plane) const {
    const Index n = problem_.space.shape[0];
    return problem_.space.periodic(0) ? (plane % n + n) % n : plane;
  }
  kernel::Points operand(const PlaneList& list, Index listed, Index plane) const {
    const PlanePlace& place = list.at(listed);
    return points_of(problem_, tiles_[place.access], place.cell, {plane - image(plane), 0, 0});
  }
  /// Where a level puts a field that it replaces.
  kernel::Points made(Index level, Index plane, std::size_t field) const {
    return level == levels_.depth() ? operand(work_.results[field], plane, plane) : ring(level, plane, field);
  }
  /// A field as it is after a level.
  kernel::Points after(Index level, Index plane, std::size_t field) const {
    return made(versions_.version(field, level), plane, field);
  }

  void load(Index plane) {
    if (!of(0, plane)) return;
    const Interval rows = levels_.computed(0, strip());
    if (rows.empty()) return;
    for (std::size_t field = 0; field < fields(); ++field)
      kernel::copy_points(operand(work_.now[field], plane, plane), ring(0, plane, field), levels_.range(plane, rows),
                          problem_.space.item);
    ghosts(0, plane);
  }

  /// Around what the ring holds of a plane, where a later level uses it.
  void ghosts(Index level, Index plane) {
    bool used = false;
    for (Index later = level + 1; later <= std::min(levels_.depth(), level + versions_.age()); ++later)
      used |= !levels_.computed(later, strip()).empty();
    if (!used) return;
    flat_.step = work_.first_step + level / versions_.stages();
    for (const std::size_t field : versions_.replaced(level))
      kernel::fill_ghosts(flat_, ring(level, plane, field), levels_.range(plane, levels_.held(level, strip())), {});
  }

  void compute(Index level, Index plane) {
    if (!of(level, plane)) return;
    const Interval rows = levels_.computed(level, strip());
    if (!rows.empty()) {
      const Range3 range = levels_.range(plane, rows);
      problem_.fields() ? stage(level, range) : step(level, range, made(level, plane, 0));
      if (level % versions_.stages() == 0) end_step(level, range);
      if (level == levels_.depth()) finish(level, range);
    }
    if (level < levels_.depth()) exchange(level, plane);
  }

  /// What a step leaves: sources, and what observers and receivers get.
  void end_step(Index level, const Range3& range) {
    const Index plane = range.first[0], step = level / versions_.stages();
    for (const std::size_t field : versions_.replaced(level))
      inject(problem_, work_.first_step + step, made(level, plane, field), range, field);
    for (const StripWork::Trace& trace : work_.traces)
      if (trace.step == step && trace.point[0] == plane)
        std::memcpy(tiles_[trace.access].data + trace.at * tiles_[trace.access].strides[1],
                    after(level, plane, trace.field).at(plane, trace.point[1], trace.point[2]), problem_.space.item);
    if (plane != image(plane)) return;
    std::vector<kernel::Points> before, now;
    for (std::size_t field = 0; field < fields(); ++field) {
      before.push_back(after(level - versions_.stages(), plane, field));
      now.push_back(after(level, plane, field));
    }
    work_.observed.see(work_.first_step + step, before, now, range, tiles_);
  }

  /// Results that the last level does not make: the step before, fields that an earlier stage replaced.
  void finish(Index level, const Range3& range) {
    const Index plane = range.first[0];
    const auto copy = [&](const kernel::Points& from, std::size_t result) {
      kernel::copy_points(from, operand(work_.results[result], plane, plane), range, problem_.space.item);
    };
    if (!problem_.fields() && problem_.order() == 2) copy(ring(level - 1, plane), 1);
    for (std::size_t field = 0; field < fields(); ++field)
      if (versions_.version(field, level) < level) copy(after(level, plane, field), field);
  }

  void step(Index level, const Range3& range, const kernel::Points& to) {
    const Index plane = range.first[0], y = range.first[1], x = range.first[2];
    const kernel::Points from = ring(level - 1, plane);
    for (Index dz = -reach_; dz <= reach_; ++dz)
      planes_[static_cast<std::size_t>(dz + reach_)] = neighbour(level - 1, plane + dz, y, x);
    kernel::PlaneCall call;
    call.rows = range.extent(1), call.columns = range.extent(2);
    call.to = to.at(plane, y, x), call.to_pitch = to.strides[1];
    call.planes = planes_.data(), call.pitch = from.strides[1];
    if (problem_.order() == 2) {
      const kernel::Points before = level == 1 ? operand(work_.before, image(plane), plane) : ring(level - 2, plane);
      call.before = before.at(plane, y, x), call.before_pitch = before.strides[1];
    }
    for (std::size_t c = 0; c < rows_.size(); ++c) {
      const kernel::Points given = operand(work_.coefficients[c], image(plane), plane);
      rows_[c] = {given.at(plane, y, x), given.strides[1], given.strides[2]};
    }
    call.coefficients = rows_;
    problem_.kernel->run(call, kernel_scratch());
  }

  /// The same of several fields: one stage, and what it carries over.
  void stage(Index level, const Range3& range) {
    const Index plane = range.first[0];
    const FieldStage& stage = *problem_.stages[static_cast<std::size_t>((level - 1) % versions_.stages())];
    const Index reach = stage.radius()[0], width = 2 * reach + 1;
    std::vector<std::byte*> near(fields() * static_cast<std::size_t>(width));
    std::vector<kernel::Points> to(fields()), given;
    for (std::size_t field = 0; field < fields(); ++field)
      for (Index dz = -reach; dz <= reach; ++dz)
        near[field * static_cast<std::size_t>(width) + static_cast<std::size_t>(dz + reach)] =
            neighbour(versions_.version(field, level - 1), plane + dz, range.first[1], range.first[2], field);
    for (const std::size_t field : versions_.replaced(level)) to[field] = made(level, plane, field);
    for (const PlaneList& list : work_.coefficients) given.push_back(operand(list, image(plane), plane));
    const Index pitch = ring(0, plane, 0).strides[1];
    const auto place = [&](std::size_t field, const Axes& at) {
      std::byte* const first =
          near[field * static_cast<std::size_t>(width) + static_cast<std::size_t>(at[0] - plane + reach)];
      return first + (at[1] - range.first[1]) * pitch + (at[2] - range.first[2]) * problem_.item();
    };
    stage.run(range, place, to, given, kernel_scratch());
    for (const std::size_t field : versions_.replaced(level))
      if (std::ranges::none_of(stage.replaced(), [&](const auto& own) { return own.first == field; }))
        kernel::copy_points(after(level - 1, plane, field), to[field], range, problem_.space.item);
  }

  /// Element (y, x) of a plane of a level; beyond an edge of the plane whose values it has, or of one of fixed values.
  std::byte* neighbour(Index level, Index plane, Index y, Index x, std::size_t field = 0) {
    if (of(level, plane)) return ring(level, plane, field).at(plane, y, x);
    const kernel::GhostSource source = kernel::ghost_source(problem_.space, 0, plane);
    if (source.kind == kernel::GhostSource::inside) return ring(level, source.at, field).at(source.at, y, x);
    const bool low = source.kind == kernel::GhostSource::low;
    const std::uint64_t before = (2 * field + (low ? 0 : 1)) * levels_.plane_bytes();
    const kernel::Points beyond = levels_.like_ring(tiles_[work_.scratch].data + before, level, strip(), plane);
    const Range3 held = levels_.range(plane, levels_.held(level, strip()));
    flat_.step = work_.first_step + level / versions_.stages();
    kernel::fill_side(flat_, 0, !low, beyond, held);
    kernel::fill_ghosts(flat_, beyond, held, {});
    return beyond.at(plane, y, x);
  }

  /// Takes the rows that the strip before has of this plane, hands on the last ones.
  void exchange(Index level, Index plane) {
    const std::size_t item = problem_.space.item;
    const Interval in = levels_.face(level, strip()), out = levels_.face(level, strip() + 1);
    const auto face = [&](std::uint32_t access, Index of_strip, std::size_t field) {
      return levels_.in_face(tiles_[access].data, work_.batch, level, of_strip, plane, field);
    };
    for (const std::size_t field : versions_.replaced(level)) {
      if (levels_.strips() == 1) break;
      const kernel::Points here = ring(level, plane, field);
      if (!in.empty()) kernel::copy_points(face(work_.face_in, strip(), field), here, levels_.range(plane, in), item);
      if (strip() + 1 < levels_.strips() && !out.empty())
        kernel::copy_points(here, face(work_.face_out, strip() + 1, field), levels_.range(plane, out), item);
    }
    ghosts(level, plane);
  }

  std::byte* kernel_scratch() const { return tiles_[work_.scratch].data + 2 * fields() * levels_.plane_bytes(); }

  const StripWork& work_;
  const Problem& problem_;
  const Levels& levels_;
  const Versions& versions_;
  std::span<const Tile> tiles_;
  kernel::Space flat_;  // planes are filled one by one
  Index reach_;
  std::vector<const std::byte*> planes_;
  std::vector<kernel::CoefficientRows> rows_;
};

void run_strip(const Call& call, std::span<const Tile> tiles) { Strip(call.value_as<StripWork>(), tiles).run(); }

const bool entered = host_kernels().enter(Kernel::stencil_strip, run_strip);

}  // namespace

std::uint64_t StripWork::scratch_bytes(const Problem& problem, const Levels& levels) {
  return 2 * levels.versions().fields() * levels.plane_bytes() + problem.kernel_scratch();
}

}  // namespace flagstone::stencil
