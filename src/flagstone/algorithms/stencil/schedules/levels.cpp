#include "flagstone/algorithms/stencil/schedules/levels.hpp"

#include <algorithm>

#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {
namespace {

Index floor_div(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

}  // namespace

Levels::Levels(const Problem& problem, const WavefrontScheme& scheme, Index steps)
    : problem_(problem),
      versions_(problem),
      axis_(strip_axis(problem)),
      depth_(steps * versions_.stages()),
      planes_(scheme.planes),
      levels_(std::max<Index>(1, scheme.levels) * versions_.stages()),
      reach0_(versions_.radius()[0]),
      reach_(versions_.radius()[axis_]),
      periodic0_(problem.space.periodic(0) && problem.space.shape[0] > 0 && reach0_ > 0) {
  const Index n = problem.space.shape[axis_];
  strip_ = std::min(scheme.strip, n);
  strips_ = strip_ >= n ? 1 : ceil_div(n + reach_ * (depth_ - 1), strip_);
  const Index age = versions_.age(), rows = strips_ == 1 ? n + 2 * reach_ : strip_ + (age + 3) * reach_;
  const Index across = axis_ == 1 ? problem.space.shape[2] + 2 * versions_.radius()[2] : 0;
  // 64 bytes more than whole cache lines: rows of 4096 bytes would share one set of the first-level cache.
  pitch_ = static_cast<Index>(row_bytes(axis_ == 1 ? across : rows));
  plane_bytes_ = static_cast<std::uint64_t>(pitch_ * (axis_ == 1 ? rows : 1));
  face_pitch_ = static_cast<Index>(row_bytes(axis_ == 1 ? across : (age + 1) * reach_));
  face_bytes_ = strips_ == 1 ? 0 : static_cast<std::uint64_t>(face_pitch_ * (axis_ == 1 ? (age + 1) * reach_ : 1));
  const auto group_of = [&](Index level) { return level == 0 ? 0 : (level - 1) / levels_; };
  // The last one that reads a level: of order 2 the step after the next one, too.
  const Index last = problem.fields() ? age : static_cast<Index>(problem.order());
  std::uint64_t bytes = 0;
  faces_.assign(2, 0);  // of levels 0 and 1
  for (Index level = 0; level < depth_; ++level) {
    const bool later = group_of(std::min(depth_, level + last)) != group_of(level);
    slots_.push_back((age + 1) * reach0_ + 1 + (later ? planes_ : 0));
    offsets_.push_back(bytes);
    const std::size_t fields = versions_.replaced(level).size();
    bytes += static_cast<std::uint64_t>(slots_.back()) * plane_bytes_ * fields;
    if (level > 0) faces_.push_back(faces_.back() + static_cast<Index>(fields));
  }
  offsets_.push_back(bytes);
}

std::uint64_t Levels::row_bytes(Index columns) const {
  return align_up(static_cast<std::uint64_t>(columns * problem_.item()), 64) + 64;
}

Interval Levels::planes(Index level) const {
  const Index beyond = reach0_ * (depth_ - level);
  if (periodic0_) return {-beyond, problem_.space.shape[0] + beyond};
  return problem_.needed(0, beyond);
}

Interval Levels::rows(Index level) const { return problem_.needed(axis_, reach_ * (depth_ - level)); }

Interval Levels::batches() const {
  const Index begin = planes(0).first - reach0_;  // the front where the first plane is read
  return {floor_div(begin - reach0_ * (depth_ - 1), planes_), ceil_div(problem_.core(0).last, planes_)};
}

Interval Levels::fronts(Index batch) const {
  const Index lag = reach0_ * (depth_ - 1);
  return {batch * planes_ + lag, (batch + 1) * planes_ + lag};
}

Interval Levels::computed(Index level, Index strip) const {
  const Interval all = rows(level);
  if (strips_ == 1) return all;
  if (level == 0)
    return {std::max(all.first, strip * strip_ - versions_.age() * reach_),
            std::min(all.last, (strip + 1) * strip_ + reach_)};
  const Index skew = reach_ * (level - 1);
  return {std::max(all.first, strip * strip_ - skew), std::min(all.last, (strip + 1) * strip_ - skew)};
}

Interval Levels::face(Index level, Index strip) const {
  if (strips_ == 1 || level == 0 || strip == 0) return {0, 0};
  const Index end = strip * strip_ - reach_ * (level - 1);
  const Interval all = rows(level);
  return {std::max(all.first, end - (versions_.age() + 1) * reach_), std::min(all.last, end)};
}

Interval Levels::held(Index level, Index strip) const {
  Interval rows = computed(level, strip);
  const Interval given = face(level, strip);
  if (given.empty()) return rows;
  return rows.empty() ? given : Interval{given.first, rows.last};
}

Index Levels::strip_of(Index level, Index row) const {
  return strips_ == 1 ? 0 : (row + reach_ * (level - 1)) / strip_;
}

std::uint64_t Levels::face_bytes() const { return face_bytes_ * static_cast<std::uint64_t>(planes_ * faces_.back()); }

kernel::Points Levels::points(std::byte* data, Index plane, Index first_row) const {
  kernel::Points found{data, {plane, 0, 0}, {0, pitch_, problem_.item()}};
  for (std::size_t d = 1; d < 3; ++d) found.first[d] = -versions_.radius()[d];
  if (axis_ == 1 || strips_ > 1) found.first[axis_] = first_row;
  return found;
}

kernel::Points Levels::like_ring(std::byte* memory, Index level, Index strip, Index plane) const {
  // Level `level` is the operand of level + age at last, whose rows begin at strip * strip_ - h (level + age - 1); h
  // before them, and h to spare.
  return points(memory, plane, strips_ == 1 ? -reach_ : strip * strip_ - reach_ * (level + versions_.age() + 1));
}

kernel::Points Levels::in_ring(std::byte* ring, Index level, Index strip, Index plane, std::size_t field) const {
  const auto at = static_cast<std::size_t>(level);
  const Index before = static_cast<Index>(versions_.place(level, field)) * slots_[at];
  const auto slot = static_cast<std::uint64_t>(before + (plane - planes(level).first) % slots_[at]);
  return like_ring(ring + offsets_[at] + slot * plane_bytes_, level, strip, plane);
}

kernel::Points Levels::in_face(std::byte* face_memory, Index batch, Index level, Index strip, Index plane,
                               std::size_t field) const {
  const Index at = (front_of(level, plane) - fronts(batch).first) * faces_.back() +
                   faces_[static_cast<std::size_t>(level)] + static_cast<Index>(versions_.place(level, field));
  kernel::Points found{face_memory + static_cast<std::uint64_t>(at) * face_bytes_, {plane, 0, 0}, {}};
  found.strides = {0, face_pitch_, problem_.item()};
  for (std::size_t d = 1; d < 3; ++d) found.first[d] = -versions_.radius()[d];
  found.first[axis_] = face(level, strip).first;
  return found;
}

Range3 Levels::range(Index plane, const Interval& rows) const {
  Range3 range = problem_.space.whole();
  range.first[0] = plane, range.last[0] = plane + 1;
  range.first[axis_] = rows.first, range.last[axis_] = std::max(rows.first, rows.last);
  return range;
}

}  // namespace flagstone::stencil
