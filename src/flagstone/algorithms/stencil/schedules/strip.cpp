#include "flagstone/algorithms/stencil/schedules/strip.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {
namespace {

class Strip {
 public:
  Strip(const StripWork& work, std::span<const Tile> tiles)
      : work_(work),
        problem_(*work.problem),
        levels_(*work.levels),
        tiles_(tiles),
        flat_(problem_.space),
        reach_(problem_.space.radius[0]),
        planes_(static_cast<std::size_t>(2 * reach_ + 1)),
        rows_(problem_.coefficients.size()) {
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
  bool of(Index level, Index plane) const {
    const Interval planes = levels_.planes(level);
    return plane >= planes.first && plane < planes.last;
  }
  kernel::Points ring(Index level, Index plane) const {
    return levels_.in_ring(tiles_[work_.ring].data, level, strip(), plane);
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

  void load(Index plane) {
    if (!of(0, plane)) return;
    const Interval rows = levels_.computed(0, strip());
    if (rows.empty()) return;
    kernel::copy_points(operand(work_.now, plane, plane), ring(0, plane), levels_.range(plane, rows),
                        problem_.space.item);
    ghosts(0, plane);
  }

  /// Around what the ring holds of a plane, where the next level uses it.
  void ghosts(Index level, Index plane) {
    if (levels_.computed(level + 1, strip()).empty()) return;
    flat_.step = work_.first_step + level;
    kernel::fill_ghosts(flat_, ring(level, plane), levels_.range(plane, levels_.held(level, strip())), {});
  }

  void compute(Index level, Index plane) {
    if (!of(level, plane)) return;
    const Interval rows = levels_.computed(level, strip());
    const bool result = level == levels_.depth();
    if (!rows.empty()) {
      const Range3 range = levels_.range(plane, rows);
      const kernel::Points to = result ? operand(work_.results[0], plane, plane) : ring(level, plane);
      step(level, range, to);
      inject(problem_, work_.first_step + level, to, range);
      trace(level, plane, to);
      if (plane == image(plane))
        work_.observed.see(work_.first_step + level, ring(level - 1, plane), to, range, tiles_);
      if (result && problem_.order() == 2)
        kernel::copy_points(ring(level - 1, plane), operand(work_.results[1], plane, plane), range,
                            problem_.space.item);
    }
    if (!result) exchange(level, plane);
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

  /// Element (y, x) of a plane of a level; beyond an edge of the plane whose values it has, or of one of fixed values.
  const std::byte* neighbour(Index level, Index plane, Index y, Index x) {
    if (of(level, plane)) return ring(level, plane).at(plane, y, x);
    const kernel::GhostSource source = kernel::ghost_source(problem_.space, 0, plane);
    if (source.kind == kernel::GhostSource::inside) return ring(level, source.at).at(source.at, y, x);
    const bool low = source.kind == kernel::GhostSource::low;
    const kernel::Points made =
        levels_.like_ring(tiles_[work_.scratch].data + (low ? 0 : levels_.plane_bytes()), level, strip(), plane);
    const Range3 held = levels_.range(plane, levels_.held(level, strip()));
    flat_.step = work_.first_step + level;
    kernel::fill_side(flat_, 0, !low, made, held);
    kernel::fill_ghosts(flat_, made, held, {});
    return made.at(plane, y, x);
  }

  /// Takes the rows that the strip before has of this plane, hands on the last ones.
  void exchange(Index level, Index plane) {
    if (levels_.strips() > 1) {
      const std::size_t item = problem_.space.item;
      const Interval in = levels_.face(level, strip()), out = levels_.face(level, strip() + 1);
      if (!in.empty())
        kernel::copy_points(levels_.in_face(tiles_[work_.face_in].data, work_.batch, level, strip(), plane),
                            ring(level, plane), levels_.range(plane, in), item);
      if (strip() + 1 < levels_.strips() && !out.empty())
        kernel::copy_points(ring(level, plane),
                            levels_.in_face(tiles_[work_.face_out].data, work_.batch, level, strip() + 1, plane),
                            levels_.range(plane, out), item);
    }
    ghosts(level, plane);
  }

  void trace(Index level, Index plane, const kernel::Points& points) {
    for (const StripWork::Trace& trace : work_.traces)
      if (trace.level == level && trace.point[0] == plane)
        std::memcpy(tiles_[trace.access].data + trace.at * tiles_[trace.access].strides[1],
                    points.at(plane, trace.point[1], trace.point[2]), problem_.space.item);
  }

  std::byte* kernel_scratch() const { return tiles_[work_.scratch].data + 2 * levels_.plane_bytes(); }

  const StripWork& work_;
  const Problem& problem_;
  const Levels& levels_;
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
  return 2 * levels.plane_bytes() + align_up(problem.kernel->scratch_bytes(), 64);
}

}  // namespace flagstone::stencil
