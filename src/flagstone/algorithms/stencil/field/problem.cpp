#include "flagstone/algorithms/stencil/field/problem.hpp"

#include <algorithm>
#include <complex>
#include <cstring>

#include "flagstone/algorithms/stencil/field/field_stage.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/base/real_types.hpp"

namespace flagstone::stencil {
namespace {

template <class T>
void add_to(std::byte* to, const std::byte* from) {
  T sum, more;
  std::memcpy(&sum, to, sizeof(T));
  std::memcpy(&more, from, sizeof(T));
  sum = static_cast<T>(sum + more);
  std::memcpy(to, &sum, sizeof(T));
}

void add_element(Dtype dtype, std::byte* to, const std::byte* from) {
  if (dtype == Dtype::complex64) return add_to<std::complex<float>>(to, from);
  if (dtype == Dtype::complex128) return add_to<std::complex<double>>(to, from);
  visit_real_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>)
      add_to<T>(to, from);
    else if constexpr (std::is_integral_v<T>)
      add_to<std::make_unsigned_t<T>>(to, from);
  });
}

}  // namespace

std::vector<std::size_t> axes_of(std::size_t ndim) {
  if (ndim == 1) return {2};
  if (ndim == 2) return {0, 2};
  return {0, 1, 2};
}

void set_field(Problem& problem, Dtype dtype, Index steps, const Shape& radius) {
  const std::size_t fields = problem.from.size();
  if (fields < 1 || fields > 2 || problem.to.size() != fields)
    throw ShapeError("stencil: a field and its result are needed, or two of both (now, before).");
  const Shape shape = problem.from[0].shape();
  if (shape.empty() || shape.size() > 3 || radius.size() != shape.size() || steps < 0)
    throw ShapeError("stencil: a field of 1 to 3 dimensions, a radius for each, and 0 or more steps are needed.");
  for (const std::vector<Array>* arrays : {&problem.from, &problem.to, &problem.coefficients})
    for (const Array& array : *arrays)
      if (array.shape() != shape || array.dtype() != dtype)
        throw ShapeError("stencil: fields, results and coefficients have one shape and the kernel's dtype.");
  problem.axes = axes_of(shape.size()), problem.dtype = dtype, problem.steps = steps;
  problem.space.item = size_of(dtype);
  problem.space.shape = {1, 1, 1}, problem.space.radius = {};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    problem.space.shape[problem.axes[i]] = shape[i];
    problem.space.radius[problem.axes[i]] = radius[i];
  }
}

Box Problem::box(const Range3& range) const {
  Box box;
  for (const std::size_t d : axes) box.start.push_back(range.first[d]), box.shape.push_back(range.extent(d));
  return box;
}

Axes Problem::extents(const Shape& shape) const {
  Axes found{1, 1, 1};
  for (std::size_t i = 0; i < axes.size(); ++i) found[axes[i]] = shape[i];
  return found;
}

Range3 Problem::range(const Box& box) const {
  Range3 range{{0, 0, 0}, {1, 1, 1}};
  for (std::size_t i = 0; i < axes.size(); ++i)
    range.first[axes[i]] = box.start[i], range.last[axes[i]] = box.start[i] + box.shape[i];
  return range;
}

Supersteps::Supersteps(Index steps, Index depth)
    : steps_(steps), number_(std::max<Index>(1, ceil_div(steps, std::max<Index>(1, depth)))) {}

kernel::Points points_of(const Problem& problem, const Tile& tile, const Range3& range, const Axes& shift) {
  kernel::Points points{tile.data, range.first, {}};
  for (std::size_t d = 0; d < 3; ++d) points.first[d] += shift[d];
  for (std::size_t i = 0; i < problem.axes.size(); ++i) points.strides[problem.axes[i]] = tile.strides[i];
  return points;
}

std::uint64_t staging_of(const Problem& problem, const Array& array, const Range3& range, bool written) {
  if (array.in_memory()) return 0;
  const Box box = problem.box(kernel::intersect(range, problem.space.whole()));
  return written ? array.store().write_staging(box) : array.store().geometry(box).beside_bytes();
}

bool Problem::edges_change() const {
  return std::ranges::any_of(space.edges, [](const auto& sides) { return sides[0].series || sides[1].series; });
}

std::uint64_t Problem::edge_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& sides : space.edges)
    for (const kernel::EdgeRule& rule : sides)
      for (const auto& values : {rule.series, rule.face}) bytes += values ? values->size() : 0;
  return bytes;
}

double Problem::flops() const {
  double flops = kernel ? kernel->flops() : 0;
  for (const auto& stage : stages) flops += stage->flops();
  return flops;
}

std::uint64_t Problem::kernel_scratch() const {
  std::uint64_t bytes = kernel ? kernel->scratch_bytes() : 0;
  for (const auto& stage : stages) bytes = std::max<std::uint64_t>(bytes, stage->scratch_bytes());
  return align_up(bytes, 64);
}

void inject(const Problem& problem, Index step, const kernel::Points& points, const Range3& range, std::size_t field) {
  for (const Source& source : problem.sources) {
    if (source.field != field) continue;
    Axes first = source.point, each{1, 1, 1};
    bool meets = true;
    for (std::size_t d = 0; d < 3; ++d) {
      each[d] = problem.space.shape[d];
      if (problem.space.periodic(d)) {
        first[d] += (range.first[d] - first[d]) / each[d] * each[d];
        while (first[d] > range.first[d]) first[d] -= each[d];
        while (first[d] < range.first[d]) first[d] += each[d];
      }
      meets &= first[d] >= range.first[d] && first[d] < range.last[d];
    }
    if (!meets) continue;
    const std::byte* const value = source.series->data() + static_cast<std::size_t>((step - 1) * problem.item());
    for (Index z = first[0]; z < range.last[0]; z += each[0])
      for (Index y = first[1]; y < range.last[1]; y += each[1])
        for (Index x = first[2]; x < range.last[2]; x += each[2]) add_element(problem.dtype, points.at(z, y, x), value);
  }
}

std::uint64_t held_bytes(const Problem& problem, Index supersteps) {
  if (problem.saved) return 0;
  const Range3 all = problem.space.whole();
  const auto turns = static_cast<std::uint64_t>(std::min<Index>(2, supersteps - 1));
  const auto plane = static_cast<std::uint64_t>(all.count() / all.extent(first_axis(problem)) * problem.item());
  return turns * problem.order() * plane;
}

}  // namespace flagstone::stencil
