#include "flagstone/algorithms/restructure/source.hpp"

#include <algorithm>
#include <numeric>

#include "flagstone/base/grid.hpp"

namespace flagstone::restructure {
namespace {

/// Dimensions of the array, slowest in storage first: two elements where there are two, so that strides mean something.
std::vector<std::size_t> stored_order(const Array& array) {
  std::vector<std::size_t> order(array.ndim());
  std::iota(order.begin(), order.end(), 0);
  if (count(array.shape()) == 0) return order;
  Box corner{Shape(array.ndim(), 0), Shape(array.ndim(), 1)};
  for (std::size_t d = 0; d < array.ndim(); ++d)
    if (array.chunks()[d] > 1 && array.shape()[d] > 1) corner.shape[d] = 2;
  const Shape strides = array.in_memory() ? array.store().memory_strides() : array.store().read(corner).strides;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  return order;
}

}  // namespace

bool is_flat(const Array& array) {
  if (array.in_memory() || array.store().verified() || array.chunks() != array.shape() || count(array.shape()) < 2)
    return false;
  // Two elements that lie apart: of a chunk, all that is between them is one range.
  Shape apart(array.ndim(), 1);
  for (std::size_t d : stored_order(array))
    if (array.shape()[d] > 1) {
      apart[d] = 2;
      break;
    }
  return array.store().unpack_bytes() == 0 && array.store().run_bytes(apart) <= 2 * size_of(array.dtype());
}

Shape seen(const Source& source, const Shape& shape) {
  Shape turned(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) turned[d] = shape[source.axes[d]];
  return turned;
}

Box own(const Source& source, const Box& box) {
  Box turned = box;
  for (std::size_t d = 0; d < source.axes.size(); ++d) {
    turned.start[source.axes[d]] = box.start[d];
    turned.shape[source.axes[d]] = box.shape[d];
  }
  return turned;
}

Lie lie_of(const Source& source) {
  const Array& array = source.array;
  Lie lie;
  lie.shape = seen(source, array.shape());
  lie.chunks = seen(source, array.chunks());
  for (Index& extent : lie.chunks) extent = std::max<Index>(1, extent);
  std::vector<std::size_t> place(source.axes.size());
  for (std::size_t d = 0; d < place.size(); ++d) place[source.axes[d]] = d;
  for (std::size_t d : stored_order(array)) lie.order.push_back(place[d]);
  lie.item = size_of(array.dtype());
  lie.unpack = array.store().unpack_bytes();
  lie.packed = lie.unpack > 0;
  lie.memory = array.in_memory();
  lie.free = lie.memory || is_flat(array);
  if (!array.in_memory() && !array.store().operands().empty())
    lie.staging = [source](const Shape& piece) {
      return static_cast<std::uint64_t>(
          source.array.store().read(own(source, {Shape(piece.size(), 0), piece})).beside_bytes());
    };
  return lie;
}

Shape slab(Shape extents, const Lie& lie, std::uint64_t most) {
  std::uint64_t bytes = static_cast<std::uint64_t>(count(extents)) * lie.item;
  for (std::size_t d : lie.order) {
    if (bytes <= most) break;
    const std::uint64_t one = bytes / static_cast<std::uint64_t>(extents[d]);
    extents[d] = static_cast<Index>(std::max<std::uint64_t>(1, most / one));
    bytes = one * static_cast<std::uint64_t>(extents[d]);
  }
  return extents;
}

std::uint64_t run_bytes(const Lie& lie, const Shape& part) {
  const Shape& unit = lie.free ? lie.shape : lie.chunks;
  std::uint64_t run = lie.item;
  for (std::size_t i = lie.order.size(); i-- > 0;) {
    const std::size_t d = lie.order[i];
    run *= static_cast<std::uint64_t>(std::min(part[d], unit[d]));
    if (part[d] < std::min(unit[d], lie.shape[d])) break;
  }
  return run;
}

Pieces::Pieces(const Lie& lie, const Shape& piece, bool parts, const Box& box) : cuts_(lie.shape.size()) {
  for (std::size_t d = 0; d < lie.shape.size(); ++d) {
    const Index stop = box.start[d] + box.shape[d], unit = lie.free ? lie.shape[d] : lie.chunks[d];
    for (Index at = box.start[d]; at < stop;) {
      const Index chunk = at / unit * unit;
      const Index anchor = parts ? std::max(chunk, box.start[d]) : chunk;
      const Index start = anchor + (at - anchor) / piece[d] * piece[d];
      const Index end = std::min({start + piece[d], chunk + unit, parts ? stop : lie.shape[d]});
      cuts_[d].emplace_back(start, end);
      at = end;
    }
  }
}

std::vector<Box> Pieces::over(const Box& part) const {
  const std::size_t dims = cuts_.size();
  std::vector<std::size_t> first(dims), last(dims);
  for (std::size_t d = 0; d < dims; ++d) {
    const auto& cuts = cuts_[d];
    const auto from = std::upper_bound(cuts.begin(), cuts.end(), part.start[d],
                                       [](Index at, const auto& cut) { return at < cut.second; });
    const auto to = std::lower_bound(from, cuts.end(), part.start[d] + part.shape[d],
                                     [](const auto& cut, Index at) { return cut.first < at; });
    first[d] = static_cast<std::size_t>(from - cuts.begin()), last[d] = static_cast<std::size_t>(to - cuts.begin());
  }
  std::vector<Box> boxes;
  std::vector<std::size_t> at = first;
  do {
    Box box{Shape(dims), Shape(dims)};
    for (std::size_t d = 0; d < dims; ++d)
      box.start[d] = cuts_[d][at[d]].first, box.shape[d] = cuts_[d][at[d]].second - box.start[d];
    boxes.push_back(std::move(box));
  } while (advance(at, first, last));
  return boxes;
}

}  // namespace flagstone::restructure
