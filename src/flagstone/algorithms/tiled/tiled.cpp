#include "flagstone/algorithms/tiled/tiled.hpp"

#include <algorithm>
#include <numeric>

#include "flagstone/base/grid.hpp"

namespace flagstone::linalg {
namespace {

/// Of one dimension: the box that is read, and where the tile lies in it.
struct Span {
  Index box_start, box_extent, offset, extent;
};

Span span_of(const Cut& cut, Index i) {
  const Index start = i * cut.tile, box_start = start / cut.box * cut.box;
  return {box_start, std::min(cut.box, cut.extent - box_start), start - box_start,
          std::min(cut.tile, cut.extent - start)};
}

}  // namespace

MatrixTile transposed(MatrixTile x) {
  x.op.transpose = !x.op.transpose;
  return x;
}

MatrixTile adjoint(MatrixTile x) {
  x.op.conjugate = is_complex(x.array().dtype()) && !x.op.conjugate;
  return transposed(std::move(x));
}

MatrixTile again(MatrixTile c, bool more) {
  c.again = more;
  return c;
}

bool is_zero(const MatrixTile& x) {
  Box tile = x.used;
  for (std::size_t d = 0; d < tile.start.size(); ++d) tile.start[d] += x.region.box.start[d];
  return x.array().store().zeros(tile);
}

MatrixTile Tiled::operator()(Index i, Index j) const {
  Span first = span_of(rows_, i), second = span_of(cols_, j);
  if (x_.transpose) std::swap(first, second);
  const auto in_stack = [](Shape lead, Index one, Index other) {
    lead.push_back(one), lead.push_back(other);
    return lead;
  };
  return {{x_.array,
           {in_stack(lead_.start, first.box_start, second.box_start),
            in_stack(lead_.shape, first.box_extent, second.box_extent)}},
          {in_stack(Shape(lead_.start.size(), 0), first.offset, second.offset),
           in_stack(lead_.shape, first.extent, second.extent)},
          {x_.transpose, x_.conjugate}};
}

std::vector<Box> Tiled::blocks(Index rows, Index cols) const {
  std::vector<Box> boxes;
  if (this->rows() > 0 && this->cols() > 0)
    for_each_box(whole({this->rows(), this->cols()}), {rows, cols}, {0, 1},
                 [&](const Box& box) { boxes.push_back(box); });
  return boxes;
}

}  // namespace flagstone::linalg
