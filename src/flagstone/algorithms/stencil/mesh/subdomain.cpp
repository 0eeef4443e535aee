#include "flagstone/algorithms/stencil/mesh/subdomain.hpp"

#include <algorithm>
#include <string>

#include "flagstone/base/error.hpp"

namespace flagstone::stencil {
namespace {

constexpr Index any_depth = Index{1} << 60;

/// As calls have it: one number for each of the first two dimensions.
std::string told(const Problem& problem, const Mesh& mesh) {
  return std::to_string(mesh[problem.axes[0]]) + " x " + std::to_string(mesh[problem.axes[1]]);
}

}  // namespace

Mesh mesh_of(const Problem& problem, const std::array<Index, 2>& ranks) {
  if (problem.axes.size() < 2)
    throw ShapeError("stencil: a mesh cuts two dimensions and the field has one; leave the mesh out.");
  Mesh mesh{1, 1, 1};
  for (std::size_t i = 0; i < 2; ++i) {
    const Index n = problem.space.shape[problem.axes[i]];
    if (ranks[i] < 1 || ranks[i] > n)
      throw ShapeError("stencil: the mesh has " + std::to_string(ranks[i]) + " ranks along dimension " +
                       std::to_string(i) + " and the field " + std::to_string(n) + " points; 1 to " +
                       std::to_string(n) + " ranks are possible.");
    mesh[problem.axes[i]] = ranks[i];
  }
  return mesh;
}

Index deepest_of(const kernel::Space& space, const Mesh& mesh) {
  Index most = any_depth;
  for (std::size_t d = 0; d < 3; ++d)
    if (mesh[d] > 1 && space.radius[d] > 0) most = std::min(most, space.shape[d] / mesh[d] / space.radius[d]);
  return most;
}

void check_depth(const Problem& problem, const Mesh& mesh, Index depth) {
  const kernel::Space& space = problem.space;
  const Index most = deepest_of(space, mesh);
  if (depth <= most) return;
  Mesh works = mesh;
  std::size_t which = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    if (mesh[d] == 1 || space.radius[d] == 0) continue;
    if (space.radius[d] * depth > space.shape[d] / mesh[d]) which = d;
    works[d] = std::clamp<Index>(space.shape[d] / (space.radius[d] * depth), 1, mesh[d]);
  }
  const std::string width = std::to_string(space.radius[which] * depth);
  const std::string core = std::to_string(space.shape[which] / mesh[which]);
  throw ShapeError("stencil: sleeves of " + width + " points (radius " + std::to_string(space.radius[which]) +
                   " times depth " + std::to_string(depth) + ") are wider than a neighbour's core of " + core +
                   " with mesh " + told(problem, mesh) + "; " +
                   (most > 0 ? "give depth " + std::to_string(most) + " or less, or " : "") + "mesh " +
                   told(problem, works) + " or smaller.");
}

Subdomain::Subdomain(const kernel::Space& space, const Mesh& mesh, Index rank, Index depth)
    : rank_(rank), shape_(space.shape), radius_(space.radius), mesh_(mesh) {
  for (std::size_t d = 3; d-- > 0; rank /= mesh[d]) at_[d] = rank % mesh[d];
  for (std::size_t d = 0; d < 3; ++d) {
    const Index n = space.shape[d], parts = mesh[d], at = at_[d];
    core_.first[d] = at * n / parts, core_.last[d] = (at + 1) * n / parts;
    Index stride = 1;
    for (std::size_t e = d + 1; e < 3; ++e) stride *= mesh[e];
    const bool wraps = space.periodic(d);
    neighbours_[d] = {-1, -1};
    if (parts == 1) continue;
    if (at > 0 || wraps) neighbours_[d][0] = rank_ + ((at + parts - 1) % parts - at) * stride;
    if (at + 1 < parts || wraps) neighbours_[d][1] = rank_ + ((at + 1) % parts - at) * stride;
  }
  buffer_ = core_;
  for (std::size_t d = 0; d < 3; ++d) {
    if (sleeve(d, false)) buffer_.first[d] -= radius_[d] * depth;
    if (sleeve(d, true)) buffer_.last[d] += radius_[d] * depth;
  }
}

Axes Subdomain::shift(std::size_t axis, bool high) const {
  Axes shift{};
  if (!high && at_[axis] == 0) shift[axis] = shape_[axis];
  if (high && at_[axis] + 1 == mesh_[axis]) shift[axis] = -shape_[axis];
  return shift;
}

Range3 Subdomain::received(std::size_t axis, bool high, Index steps) const {
  Range3 range = core_;
  if (high)
    range.first[axis] = core_.last[axis], range.last[axis] += radius_[axis] * steps;
  else
    range.last[axis] = core_.first[axis], range.first[axis] -= radius_[axis] * steps;
  for (std::size_t d = 0; d < axis; ++d) {
    if (sleeve(d, false)) range.first[d] -= radius_[d] * steps;
    if (sleeve(d, true)) range.last[d] += radius_[d] * steps;
  }
  return range;
}

double sleeve_elements(const kernel::Space& space, const Mesh& mesh, Index steps) {
  double elements = 0;
  for (Index rank = 0; rank < ranks_of(mesh); ++rank) {
    const Subdomain part(space, mesh, rank, steps);
    for (std::size_t d = 0; d < 3; ++d)
      for (const bool high : {false, true})
        if (part.sleeve(d, high)) elements += static_cast<double>(part.received(d, high, steps).count());
  }
  return elements;
}

}  // namespace flagstone::stencil
