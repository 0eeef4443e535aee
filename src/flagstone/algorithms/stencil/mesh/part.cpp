#include "flagstone/algorithms/stencil/mesh/part.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/base/grid.hpp"

namespace flagstone::stencil {
namespace {

/// A face of a side, as far as the sub-buffer goes along the other axes.
std::shared_ptr<const std::vector<std::byte>> face_of(const kernel::Space& whole, const Range3& buffer,
                                                      std::size_t axis, const std::vector<std::byte>& face) {
  const auto along = [&](std::size_t d, Index at) {
    if (d == axis) return Index{0};
    const kernel::GhostSource source = kernel::ghost_source(whole, d, at);
    return source.kind == kernel::GhostSource::inside ? source.at : std::clamp<Index>(at, 0, whole.shape[d] - 1);
  };
  const Index rows = axis == 1 ? 1 : whole.shape[1], columns = axis == 2 ? 1 : whole.shape[2];
  Range3 side = buffer;
  side.first[axis] = 0, side.last[axis] = 1;
  auto made = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(side.count()) * whole.item);
  std::byte* to = made->data();
  Axes at = side.first;
  do {
    const Index from = (along(0, at[0]) * rows + along(1, at[1])) * columns + along(2, at[2]);
    std::memcpy(to, face.data() + static_cast<std::size_t>(from) * whole.item, whole.item);
    to += whole.item;
  } while (advance(at, side.first, side.last));
  return made;
}

/// Where a point and its images beyond sleeves of periodic edges lie in the sub-buffer, counted from its first point.
std::vector<Axes> places_of(const kernel::Space& whole, const Subdomain& rank, const Axes& point) {
  std::vector<Axes> found;
  Axes first{}, last{1, 1, 1};
  for (std::size_t d = 0; d < 3; ++d)
    if (whole.periodic(d) && rank.sleeve(d, false)) first[d] = -1, last[d] = 2;
  Axes image = first;
  do {
    Axes at;
    for (std::size_t d = 0; d < 3; ++d) at[d] = point[d] + image[d] * whole.shape[d];
    if (!kernel::intersect(point_range(at), rank.buffer()).empty()) {
      for (std::size_t d = 0; d < 3; ++d) at[d] -= rank.buffer().first[d];
      found.push_back(at);
    }
  } while (advance(image, first, last));
  return found;
}

}  // namespace

Problem part_of(const std::shared_ptr<const Problem>& whole, const Subdomain& rank, Observers* observers) {
  Problem part = *whole;
  const Range3& buffer = rank.buffer();
  for (std::size_t d = 0; d < 3; ++d) {
    part.space.shape[d] = buffer.extent(d);
    part.sleeves[d] = {rank.core().first[d] - buffer.first[d], buffer.last[d] - rank.core().last[d]};
    for (const bool high : {false, true}) {
      kernel::EdgeRule& rule = part.space.edges[d][high ? 1 : 0];
      if (rank.sleeve(d, high))
        rule = {};
      else if (rule.face)
        rule.face = face_of(whole->space, buffer, d, *rule.face);
    }
  }
  part.sources.clear(), part.receivers.clear(), part.receiver_fields.clear();
  for (const Source& source : whole->sources)
    for (const Axes& at : places_of(whole->space, rank, source.point)) {
      part.sources.push_back(source);
      part.sources.back().point = at;
    }
  for (std::size_t r = 0; r < whole->receivers.size(); ++r) {
    Axes at = whole->receivers[r];
    if (kernel::intersect(point_range(at), rank.core()).empty()) continue;
    for (std::size_t d = 0; d < 3; ++d) at[d] -= buffer.first[d];
    part.receivers.push_back(at), part.receiver_fields.push_back(whole->receiver_fields[r]);
    part.receiver_rows.push_back(static_cast<Index>(r));
  }
  part.saved = false, part.checkpoint = nullptr, part.longest_superstep = 0;
  part.window = std::make_shared<Window>(Window{whole, observers, buffer.first, rank.core()});
  return part;
}

}  // namespace flagstone::stencil
