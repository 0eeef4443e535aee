#include "flagstone/storage/box/box_pieces.hpp"

#include <algorithm>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

/// 16 pieces share the staging memory: enough requests to keep a disk busy.
std::size_t most_piece_bytes(std::size_t staging) { return std::clamp<std::size_t>(staging / 16, 256 * KiB, 4 * MiB); }

/// Dimensions from the slowest to the fastest in storage.
std::vector<std::size_t> slowest_first(const Array& array, const Box& box) {
  std::vector<std::size_t> order(array.ndim());
  std::iota(order.begin(), order.end(), 0);
  Box corner{box.start, Shape(array.ndim(), 1)};
  for (std::size_t d = 0; d < array.ndim(); ++d)  // two elements where there are two, so that strides mean something
    if (corner.start[d] % array.chunks()[d] + 1 < array.chunks()[d] && corner.start[d] + 1 < array.shape()[d])
      corner.shape[d] = 2;
  const Shape strides = array.store().read(corner).strides;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  return order;
}

/// `cell` cut along the slowest axes until it holds at most `most` bytes.
Shape cut(Shape cell, std::size_t item, std::size_t most, const std::vector<std::size_t>& order) {
  std::size_t bytes = static_cast<std::size_t>(count(cell)) * item;
  for (std::size_t d : order) {
    if (bytes <= most) break;
    const std::size_t slab = bytes / static_cast<std::size_t>(cell[d]);
    cell[d] = static_cast<Index>(std::max<std::size_t>(1, most / slab));
    bytes = slab * static_cast<std::size_t>(cell[d]);
  }
  return cell;
}

Shape common_extents(const Shape& a, const Shape& b) {
  Shape least = a;
  for (std::size_t d = 0; d < a.size(); ++d) least[d] = std::min(a[d], b[d]);
  return least;
}

}  // namespace

BoxPieces::BoxPieces(Box box, Shape chunks, Shape cell)
    : box_(std::move(box)), chunks_(std::move(chunks)), cell_(std::move(cell)), at_(box_.start) {
  finished_ = count(box_.shape) == 0;
}

Index BoxPieces::end_of(std::size_t d) const {
  const Index chunk = at_[d] / chunks_[d] * chunks_[d];
  const Index origin = std::max(chunk, box_.start[d]);
  const Index cell_end = origin + ((at_[d] - origin) / cell_[d] + 1) * cell_[d];
  return std::min({cell_end, chunk + chunks_[d], box_.start[d] + box_.shape[d]});
}

std::optional<Box> BoxPieces::next() {
  if (finished_) return std::nullopt;
  Box piece{at_, at_};
  for (std::size_t d = 0; d < at_.size(); ++d) piece.shape[d] = end_of(d) - at_[d];
  std::size_t d = at_.size();
  while (d > 0) {
    --d;
    at_[d] = end_of(d);
    if (at_[d] < box_.start[d] + box_.shape[d]) return piece;
    at_[d] = box_.start[d];
  }
  finished_ = true;
  return piece;
}

BoxPieces pieces_to_read(const Array& array, const Box& box, std::size_t staging) {
  const std::size_t item = size_of(array.dtype()), most = most_piece_bytes(staging);
  Shape cell = common_extents(array.chunks(), box.shape);
  // Chunks that a few buffers hold are not cut: whole ones are verified.
  const bool chunked = array.chunks() != array.shape() || array.store().verified();
  if (static_cast<std::size_t>(count(cell)) * item > (chunked ? std::max(most, staging / 4) : most)) {
    // A packed chunk is read and unpacked whole for every piece of it: cutting would only repeat that.
    const Shape smaller = cut(cell, item, most, slowest_first(array, box));
    const std::size_t chunk_bytes = static_cast<std::size_t>(count(array.chunks())) * item;
    if (array.store().run_bytes(smaller) < chunk_bytes) cell = smaller;
  }
  return {box, array.chunks(), cell};
}

std::optional<BoxPieces> neighbourhoods(const Array& array, const Box& box, std::size_t most_chunks) {
  const Shape& chunks = array.chunks();
  Shape whole = array.store().neighbourhood();
  if (whole.empty()) return std::nullopt;
  Box around = box;
  Shape cell = whole;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    whole[d] = ceil_div(whole[d], chunks[d]) * chunks[d];
    around.start[d] = box.start[d] / chunks[d] * chunks[d];
    around.shape[d] = ceil_div(box.start[d] + box.shape[d], chunks[d]) * chunks[d] - around.start[d];
    cell[d] = std::min(whole[d], around.shape[d]) / chunks[d];
  }
  if (count(cell) < 2 || most_chunks < 2) return std::nullopt;
  std::vector<std::size_t> slowest(cell.size());
  std::iota(slowest.begin(), slowest.end(), 0);
  cell = cut(std::move(cell), 1, most_chunks, slowest);
  for (std::size_t d = 0; d < cell.size(); ++d) cell[d] *= chunks[d];
  return BoxPieces(around, whole, cell);
}

BoxPieces pieces_to_write(const Array& array, const Box& box, std::size_t staging, bool flat) {
  Shape cell = common_extents(array.chunks(), box.shape);
  if (flat) cell = cut(cell, size_of(array.dtype()), most_piece_bytes(staging), slowest_first(array, box));
  return {box, array.chunks(), cell};
}

bool takes_any_box(const Array& array) {
  if (array.chunks() != array.shape() || count(array.shape()) < 2) return false;
  try {
    array.store().planned_write({Shape(array.ndim(), 0), Shape(array.ndim(), 1)});
    return true;
  } catch (const ShapeError&) {
    return false;  // one chunk, written whole
  }
}

Box chunk_around(const Array& array, const Box& part) {
  Box chunk = part;
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    chunk.start[d] = part.start[d] / array.chunks()[d] * array.chunks()[d];
    chunk.shape[d] = std::min(array.chunks()[d], array.shape()[d] - chunk.start[d]);
  }
  return chunk;
}

}  // namespace flagstone
