#pragma once
// Extents, boxes and tiles: what every layer says about a piece of an array.
#include <cstddef>
#include <string>
#include <vector>

#include "flagstone/base/dtype.hpp"

namespace flagstone {

using Shape = std::vector<Index>;

/// Product of the extents; 1 for a zero-dimensional array.
Index count(const Shape& shape) noexcept;
/// "4096 x 512"
std::string to_string(const Shape& shape);
/// C-order strides of a dense array, in bytes.
Shape c_strides(const Shape& shape, std::size_t item_bytes);
inline Index ceil_div(Index a, Index b) noexcept { return (a + b - 1) / b; }

/// A box of an array: start (inclusive) and extent in every dimension.
struct Box {
  Shape start;
  Shape shape;
  bool operator==(const Box&) const = default;
};

Box whole(const Shape& shape);
bool overlap(const Box& a, const Box& b) noexcept;
/// The common part; extents are 0 where the boxes do not meet.
Box intersect(const Box& a, const Box& b);

/// Elements in memory: what a kernel works on. `data` points at element (0, ..., 0); strides are in BYTES and may
/// be padded or transposed. `bytes` is the exact length of an encoded chunk, else the tile's own extent.
struct Tile {
  std::byte* data = nullptr;
  Dtype dtype = Dtype::float64;
  Shape shape;
  Shape strides;
  std::size_t bytes = 0;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// The part of `tile` at `box` (box counted from the tile's own first element); shares memory.
Tile subtile(const Tile& tile, const Box& box);
/// Copies element by element between tiles of one dtype and shape; contiguous runs are copied whole.
void copy(const Tile& from, const Tile& to);
/// Sets every element to the `size_of(dtype)` bytes at `value`.
void fill(const Tile& to, const void* value);

/// ShapeError unless `box` lies in an array of this shape.
void check_box(const Shape& shape, const Box& box);

}  // namespace flagstone
