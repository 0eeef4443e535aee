#include "flagstone/storage/lazy/kernel_array.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/lazy/computed_array.hpp"

namespace flagstone {
namespace {

Index extent(const Points& points, std::size_t dimension) {
  return points.array.shape()[points.transpose ? 1 - dimension : dimension];
}

Tile seen(Tile tile, bool transpose) {
  if (transpose) std::swap(tile.shape[0], tile.shape[1]), std::swap(tile.strides[0], tile.strides[1]);
  return tile;
}

void check(const kernel::PointKernel& kernel, const Points& x, const Points& y, Dtype dtype) {
  for (const Points* points : {&x, &y})
    if (points->array.ndim() != 2 || is_complex(points->array.dtype()))
      throw ShapeError("kernel matrix: points are " + to_string(points->array.shape()) + " of " +
                       std::string(name_of(points->array.dtype())) + "; a matrix of real numbers is needed.");
  const Index dimensions = extent(x, 1);
  if (extent(y, 1) != dimensions)
    throw ShapeError("kernel matrix: points of X have " + std::to_string(dimensions) + " coordinates and those of Y " +
                     std::to_string(extent(y, 1)) + "; they must agree.");
  const auto fits = [&](const std::vector<double>& given, bool one) {
    return given.empty() || (one && given.size() == 1) || static_cast<Index>(given.size()) == dimensions;
  };
  if (!fits(kernel.length, true) || !fits(kernel.centre, false))
    throw ShapeError("kernel matrix: " + std::to_string(kernel.length.size()) + " lengths and points of " +
                     std::to_string(dimensions) + " coordinates; one length is needed, or one for each.");
  if (dtype != Dtype::float32 && dtype != Dtype::float64)
    throw ShapeError("kernel matrix: " + std::string(name_of(dtype)) + " was asked for; choose float32 or float64.");
}

}  // namespace

Box point_rows(const Points& points, Index first, Index number) {
  Box box{{first, 0}, {number, extent(points, 1)}};
  if (points.transpose) std::swap(box.start[0], box.start[1]), std::swap(box.shape[0], box.shape[1]);
  return box;
}

Array kernel_array(const kernel::PointKernel& kernel, const Points& x, const Points& y, Dtype dtype) {
  check(kernel, x, y, dtype);
  const Index dimensions = extent(x, 1);
  Computation how;
  const bool same = x.array.id() == y.array.id() && x.transpose == y.transpose;
  how.operands = {x.array};
  if (!same) how.operands.push_back(y.array);
  how.parts = [x, y, second = how.operands.size() - 1](const Box& box) -> std::vector<Computation::Part> {
    return {{0, point_rows(x, box.start[0], box.shape[0])}, {second, point_rows(y, box.start[1], box.shape[1])}};
  };
  how.flops = kernel::pair_flops(kernel, dimensions);
  how.work_bytes = [dimensions](const Box&) { return kernel::pair_scratch(dimensions); };
  how.compute = [kernel, turned_x = x.transpose, turned_y = y.transpose](const Box&, std::span<const Tile> points,
                                                                         const Tile& to, std::byte* work) {
    kernel::pairs(kernel, seen(points[0], turned_x), seen(points[1], turned_y), to, work);
  };
  return computed_array({extent(x, 0), extent(y, 0)}, dtype, std::move(how));
}

}  // namespace flagstone
