#include "flagstone/kernel/stencil/edges.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "flagstone/base/error.hpp"

namespace flagstone::kernel {

Edge edge_from_name(std::string_view name) {
  if (name == "fixed") return Edge::fixed;
  if (name == "periodic") return Edge::periodic;
  if (name == "neumann") return Edge::neumann;
  if (name == "mirror") return Edge::mirror;
  throw ShapeError("stencil: there is no boundary '" + std::string(name) + "'.");
}

GhostSource ghost_source(const Space& space, std::size_t axis, Index at) {
  const Index n = space.shape[axis];
  for (;;) {
    if (at >= 0 && at < n) return {GhostSource::inside, at};
    const bool low = at < 0;
    switch (space.edges[axis][low ? 0 : 1].edge) {
      case Edge::fixed:
        return {low ? GhostSource::low : GhostSource::high, 0};
      case Edge::periodic:
        return {GhostSource::inside, (at % n + n) % n};
      case Edge::neumann:
        at = low ? -1 - at : 2 * n - 1 - at;
        break;
      case Edge::mirror:
        if (n == 1) return {GhostSource::inside, 0};
        at = low ? -at : 2 * (n - 1) - at;
        break;
    }
  }
}

void fill_elements(std::byte* to, Index n, const std::array<std::byte, 16>& value, std::size_t item) {
  for (Index i = 0; i < n; ++i, to += item) std::memcpy(to, value.data(), item);
}

void fill_side(const Space& space, std::size_t axis, bool high, const Points& points, const Range3& range) {
  const EdgeRule& rule = space.edges[axis][high ? 1 : 0];
  const auto item = static_cast<Index>(space.item);
  if (!rule.face) {
    std::array<std::byte, 16> value = rule.value;
    if (rule.series) {
      const Index last = static_cast<Index>(rule.series->size()) / item - 1;
      std::memcpy(value.data(), rule.series->data() + std::min(space.step, last) * item, space.item);
    }
    for (Index z = range.first[0]; z < range.last[0]; ++z)
      for (Index y = range.first[1]; y < range.last[1]; ++y)
        fill_elements(points.at(z, y, range.first[2]), range.extent(2), value, space.item);
    return;
  }
  const auto inside = [&](std::size_t d, Index at) {
    const Index n = space.shape[d];
    if (d == axis) return Index{0};
    const GhostSource source = ghost_source(space, d, at);
    return source.kind == GhostSource::inside ? source.at : std::clamp<Index>(at, 0, n - 1);
  };
  const Index rows = axis == 1 ? 1 : space.shape[1], columns = axis == 2 ? 1 : space.shape[2];
  for (Index z = range.first[0]; z < range.last[0]; ++z)
    for (Index y = range.first[1]; y < range.last[1]; ++y)
      for (Index x = range.first[2]; x < range.last[2]; ++x) {
        const Index at = (inside(0, z) * rows + inside(1, y)) * columns + inside(2, x);
        std::memcpy(points.at(z, y, x), rule.face->data() + at * item, space.item);
      }
}

namespace {

/// One layer of ghosts: index `at` of `axis`, over `others` along the two other axes.
void fill_layer(const Space& space, const Points& points, std::size_t axis, Index at, Range3 others) {
  const GhostSource source = ghost_source(space, axis, at);
  others.first[axis] = at, others.last[axis] = at + 1;
  if (source.kind == GhostSource::inside) {
    Points from = points;
    from.first[axis] += at - source.at;  // seen from the ghost its source lies where it does itself
    return copy_points(from, points, others, space.item);
  }
  fill_side(space, axis, source.kind == GhostSource::high, points, others);
}

}  // namespace

void fill_ghosts(const Space& space, const Points& points, const Range3& valid, const std::array<bool, 3>& open) {
  if (valid.empty()) return;
  Range3 filled = valid;
  for (std::size_t d = 0; d < 3; ++d) {
    if (open[d]) continue;
    const Index reach = space.radius[d], n = space.shape[d];
    const bool low = valid.first[d] == 0, high = valid.last[d] == n;
    if (low)
      for (Index j = 1; j <= reach; ++j) fill_layer(space, points, d, -j, filled);
    if (high)
      for (Index j = 0; j < reach; ++j) fill_layer(space, points, d, n + j, filled);
    if (low) filled.first[d] -= reach;
    if (high) filled.last[d] += reach;
  }
}

}  // namespace flagstone::kernel
