#include "flagstone/base/shape.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone {

Index count(const Shape& shape) noexcept {
  Index n = 1;
  for (Index extent : shape) n *= extent;
  return n;
}

std::string to_string(const Shape& shape) {
  if (shape.empty()) return "()";
  std::string text;
  for (Index extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text;
}

Shape c_strides(const Shape& shape, std::size_t item_bytes) {
  Shape strides(shape.size());
  Index step = static_cast<Index>(item_bytes);
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

Box whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

bool overlap(const Box& a, const Box& b) noexcept {
  for (std::size_t d = 0; d < a.start.size(); ++d)
    if (a.start[d] >= b.start[d] + b.shape[d] || b.start[d] >= a.start[d] + a.shape[d]) return false;
  return true;
}

Box intersect(const Box& a, const Box& b) {
  Box common = a;
  for (std::size_t d = 0; d < a.start.size(); ++d) {
    common.start[d] = std::max(a.start[d], b.start[d]);
    const Index stop = std::min(a.start[d] + a.shape[d], b.start[d] + b.shape[d]);
    common.shape[d] = std::max<Index>(0, stop - common.start[d]);
  }
  return common;
}

Tile subtile(const Tile& tile, const Box& box) {
  Tile part = tile;
  for (std::size_t d = 0; d < box.start.size(); ++d) part.data += box.start[d] * tile.strides[d];
  part.shape = box.shape;
  part.bytes = static_cast<std::size_t>(count(box.shape)) * size_of(tile.dtype);
  return part;
}

namespace {

/// Calls f(offset_a, offset_b, run) for every run of elements; the dimension with the smallest stride of `a` is the
/// run (of `b`, where `a` repeats), so that transposed (Fortran-order) and reversed pairs copy along memory too.
template <class F>
void for_each_run(const Shape& shape, const Shape& a, const Shape& b, F&& f) {
  if (count(shape) == 0) return;
  if (shape.empty()) return f(Index{0}, Index{0}, Index{1}, Index{0}, Index{0});
  std::size_t inner = shape.size() - 1;
  const auto step = [&](std::size_t d) { return std::abs(a[d] != 0 ? a[d] : b[d]); };
  for (std::size_t d = 0; d + 1 < shape.size(); ++d)
    if (shape[d] > 1 && (step(d) < step(inner) || shape[inner] == 1)) inner = d;
  Shape at(shape.size(), 0), runs = shape;
  runs[inner] = 1;
  do {
    Index offset_a = 0, offset_b = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) offset_a += at[d] * a[d], offset_b += at[d] * b[d];
    f(offset_a, offset_b, shape[inner], a[inner], b[inner]);
  } while (advance(at, runs));
}

}  // namespace

void copy(const Tile& from, const Tile& to) {
  const auto item = static_cast<Index>(size_of(from.dtype));
  for_each_run(from.shape, from.strides, to.strides, [&](Index a, Index b, Index n, Index step_a, Index step_b) {
    const std::byte* source = from.data + a;
    std::byte* target = to.data + b;
    if (step_a == item && step_b == item) {
      std::memcpy(target, source, static_cast<std::size_t>(n * item));
      return;
    }
    for (Index i = 0; i < n; ++i, source += step_a, target += step_b) std::memcpy(target, source, item);
  });
}

void fill(const Tile& to, const void* value) {
  const auto item = size_of(to.dtype);
  for_each_run(to.shape, to.strides, to.strides, [&](Index a, Index, Index n, Index step, Index) {
    std::byte* target = to.data + a;
    for (Index i = 0; i < n; ++i, target += step) std::memcpy(target, value, item);
  });
}

void check_box(const Shape& shape, const Box& box) {
  bool inside = box.start.size() == shape.size() && box.shape.size() == shape.size();
  for (std::size_t d = 0; inside && d < shape.size(); ++d)
    inside = box.start[d] >= 0 && box.shape[d] >= 0 && box.start[d] <= shape[d] - box.shape[d];
  if (!inside)
    throw ShapeError("box: " + to_string(box.shape) + " at " + to_string(box.start) + " does not lie in an array of " +
                     to_string(shape) + "; clip it to the array.");
}

}  // namespace flagstone
