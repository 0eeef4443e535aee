// Arrays whose blocks a Python function makes where they are loaded.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/lazy/computed_array.hpp"
#include "flagstone/storage/lazy/kernel_array.hpp"

namespace flagstone::python {
namespace {

constexpr std::size_t temporaries = 6;  // of a block, at 8 bytes an element or more, that a function may hold

/// `box`, grown to whole blocks of a grid that begins at 0.
Box whole_blocks(const Box& box, const Shape& block, const Shape& shape) {
  Box grown = box;
  for (std::size_t d = 0; d < block.size(); ++d) {
    grown.start[d] = box.start[d] / block[d] * block[d];
    const Index end = std::min(shape[d], ceil_div(box.start[d] + box.shape[d], block[d]) * block[d]);
    grown.shape[d] = end - grown.start[d];
  }
  return grown;
}

std::size_t block_bytes(const Shape& block, std::size_t item) {
  return align_up(static_cast<std::size_t>(count(block)) * item);
}

/// The common part of a tile that stands for `from` and one that stands for `to`, copied from the first.
void copy_common(const Tile& source, const Box& from, const Tile& target, const Box& to) {
  const Box both = intersect(from, to);
  Box in_source = both, in_target = both;
  for (std::size_t d = 0; d < both.start.size(); ++d)
    in_source.start[d] -= from.start[d], in_target.start[d] -= to.start[d];
  copy(subtile(source, in_source), subtile(target, in_target));
}

/// The function is called for whole blocks of one grid, whatever box is asked for: what it computes for an element may
/// depend on those beside it. It gets the place of its block, the points of its rows and columns where there are
/// points, and the block to fill. Points of the columns are loaded for all blocks of a box together.
Array function_array(nb::object function, const Shape& shape, const std::string& dtype_name, const Shape& block,
                     const std::vector<std::pair<Array, bool>>& given) {
  const Dtype dtype = dtype_from_name(dtype_name);
  std::vector<Points> points;
  for (const auto& [array, transposed] : given) points.push_back({array, transposed});
  Computation how;
  for (const Points& one : points) how.operands.push_back(one.array);
  how.parts = [points, shape, block](const Box& box) {
    const Box grown = whole_blocks(box, block, shape);
    std::vector<Computation::Part> parts;
    for (std::size_t d = 0; d < 2 && !points.empty(); ++d) {
      const std::size_t operand = std::min(d, points.size() - 1);
      parts.push_back({operand, point_rows(points[operand], grown.start[d], grown.shape[d])});
    }
    return parts;
  };
  const std::size_t item = size_of(dtype);
  how.work_bytes = [=](const Box&) {
    return block_bytes(block, item) + temporaries * block_bytes(block, std::max<std::size_t>(item, 8));
  };
  how.compute = [held = shared_object(std::move(function)), points, shape, block, item](
                    const Box& box, std::span<const Tile> parts, const Tile& to, std::byte* work) {
    const Box grown = whole_blocks(box, block, shape);
    std::vector<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    for_each_box(grown, block, order, [&](const Box& one) {
      std::vector<Access> accesses;
      std::vector<Tile> tiles;
      for (std::size_t d = 0; d < parts.size(); ++d) {
        const Points& of = points[std::min(d, points.size() - 1)];
        const Box rows = point_rows(of, one.start[d] - grown.start[d], one.shape[d]);
        Tile seen = subtile(parts[d], rows);
        if (of.transpose) std::swap(seen.shape[0], seen.shape[1]), std::swap(seen.strides[0], seen.strides[1]);
        tiles.push_back(seen);
        accesses.push_back(read({of.array, {}}));
      }
      tiles.push_back({work, to.dtype, one.shape, c_strides(one.shape, item), block_bytes(one.shape, item)});
      accesses.push_back(write({{}, {}}));
      call_with_views(*held, &one.start, accesses, tiles);
      copy_common(tiles.back(), one, to, box);
    });
  };
  how.flops = 1;
  return computed_array(shape, dtype, std::move(how));
}

}  // namespace

void bind_functions(nb::module_& m) {
  m.def("function_array", &function_array, nb::arg("function"), nb::arg("shape"), nb::arg("dtype"), nb::arg("block"),
        nb::arg("points"));
}

}  // namespace flagstone::python
