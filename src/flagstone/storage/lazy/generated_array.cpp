#include "flagstone/storage/lazy/generated_array.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "flagstone/base/element_type.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/lazy/gather.hpp"
#include "flagstone/storage/lazy/lazy_store.hpp"

namespace flagstone {
namespace {

using Element = std::array<std::byte, 16>;

Element element(Dtype dtype, const void* value) {
  Element made{};
  std::memcpy(made.data(), value, size_of(dtype));
  return made;
}

/// Fills a tile in C order whose first element is at `start`.
using Generate = std::function<void(const Shape& start, const Tile& to)>;

class GeneratedStore final : public LazyStore {
 public:
  GeneratedStore(Shape shape, Dtype dtype, Generate generate)
      : LazyStore({}, dtype), shape_(std::move(shape)), dtype_(dtype), generate_(std::move(generate)) {}

  Transfer read(const Box& box) const override {
    check_box(shape_, box);
    Transfer geometry = dense_geometry(box.shape, item_, false);
    if (count(box.shape) == 0) return geometry;
    const Tile result{nullptr, dtype_, box.shape, geometry.strides, geometry.tile_bytes};
    geometry.convert = [generate = generate_, start = box.start, result](std::byte* buffer, std::byte*, std::byte*) {
      Tile to = result;
      to.data = buffer;
      generate(start, to);
    };
    return geometry;
  }
  std::size_t run_bytes(const Shape& box) const override {
    return static_cast<std::size_t>(c_run(shape_, box)) * item_;
  }

 private:
  const Shape shape_;
  const Dtype dtype_;
  const Generate generate_;
};

Array generated(const Shape& shape, Dtype dtype, Generate generate) {
  for (const Index extent : shape)
    if (extent < 0) throw ShapeError("generated array: shape " + to_string(shape) + "; extents must not be negative.");
  return Array(shape, dtype, shape, std::make_shared<GeneratedStore>(shape, dtype, std::move(generate)));
}

template <class T>
Generate linear(Index count, const void* first, const void* each, const void* end) {
  T start, step, last{};
  std::memcpy(&start, first, sizeof(T));
  std::memcpy(&step, each, sizeof(T));
  if (end) std::memcpy(&last, end, sizeof(T));
  return [=, ends = end != nullptr](const Shape& from, const Tile& to) {
    T* at = to.as<T>();
    for (Index i = 0; i < to.shape[0]; ++i) at[i] = start + static_cast<T>(from[0] + i) * step;
    if (from[0] == 0 && to.shape[0] > 0) at[0] = start;  // -0.0 + 0 would be 0.0
    if (ends && from[0] + to.shape[0] == count) at[to.shape[0] - 1] = last;
  };
}

}  // namespace

Array constant_array(const Shape& shape, Dtype dtype, const void* value) {
  return generated(shape, dtype,
                   [value = element(dtype, value)](const Shape&, const Tile& to) { fill(to, value.data()); });
}

Array linear_array(Index count, Dtype dtype, const void* start, const void* step, const void* last) {
  switch (dtype) {
    case Dtype::int64:  // unsigned: wraps
    case Dtype::uint64:
      return generated({count}, dtype, linear<std::uint64_t>(count, start, step, last));
    case Dtype::float32:
      return generated({count}, dtype, linear<float>(count, start, step, last));
    case Dtype::float64:
      return generated({count}, dtype, linear<double>(count, start, step, last));
    default:
      throw ShapeError("linear array: " + std::string(name_of(dtype)) + " is not counted in; convert from int64.");
  }
}

Array diagonal_array(Index rows, Index cols, Dtype dtype, Index diagonal, const void* value) {
  return generated({rows, cols}, dtype,
                   [item = size_of(dtype), diagonal, value = element(dtype, value)](const Shape& from, const Tile& to) {
                     std::memset(to.data, 0, to.bytes);
                     for (Index i = 0; i < to.shape[0]; ++i) {
                       const Index j = from[0] + i + diagonal - from[1];
                       if (j >= 0 && j < to.shape[1])
                         std::memcpy(to.data + i * to.strides[0] + j * to.strides[1], value.data(), item);
                     }
                   });
}

Array lower_triangle(const Shape& shape, Index diagonal) {
  if (shape.size() < 2) throw ShapeError("lower_triangle: " + to_string(shape) + "; two dimensions are needed.");
  return generated(shape, Dtype::boolean, [diagonal](const Shape& from, const Tile& to) {
    const std::size_t dims = to.shape.size();
    const Index cols = to.shape[dims - 1], rows = to.shape[dims - 2],
                first = from[dims - 2] - from[dims - 1] + diagonal;
    auto* at = reinterpret_cast<unsigned char*>(to.data);
    const Index matrices = count(to.shape) / (rows * cols);
    for (Index m = 0; m < matrices; ++m)
      for (Index i = 0; i < rows; ++i, at += cols) {
        const Index ones = std::clamp<Index>(first + i + 1, 0, cols);
        std::memset(at, 1, static_cast<std::size_t>(ones));
        std::memset(at + ones, 0, static_cast<std::size_t>(cols - ones));
      }
  });
}

}  // namespace flagstone
