#include "flagstone/kernel/dense/rearrange.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "flagstone/base/error.hpp"

namespace flagstone::kernel {
namespace {

struct Axis {
  Index extent, from, to;  // steps in bytes
};

/// Without extents of 1, and with neighbours joined where both sides go on evenly; slowest first as `to` lies.
std::vector<Axis> axes_of(const Tile& from, const Tile& to) {
  std::vector<Axis> axes;
  for (std::size_t d = 0; d < to.shape.size(); ++d)
    if (to.shape[d] > 1) axes.push_back({to.shape[d], from.strides[d], to.strides[d]});
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.to > b.to; });
  std::vector<Axis> joined;
  for (const Axis& axis : axes) {
    if (!joined.empty() && joined.back().to == axis.to * axis.extent && joined.back().from == axis.from * axis.extent)
      joined.back() = {joined.back().extent * axis.extent, axis.from, axis.to};
    else
      joined.push_back(axis);
  }
  return joined;
}

/// Calls f(offset in from, offset in to) for every place of the axes but the `skip` last.
template <class F>
void for_each_place(const std::vector<Axis>& axes, std::size_t skip, F&& f) {
  const std::size_t dims = axes.size() - skip;
  std::vector<Index> at(dims, 0);
  Index a = 0, b = 0;
  for (;;) {
    f(a, b);
    std::size_t d = dims;
    while (d-- > 0) {
      a += axes[d].from, b += axes[d].to;
      if (++at[d] < axes[d].extent) break;
      a -= axes[d].from * axes[d].extent, b -= axes[d].to * axes[d].extent;
      at[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

/// One plane: `x` runs along memory in `to`, `y` in `from`. Squares of a cache line a side go through a buffer: lines
/// are read whole and written whole. Elements may lie at any alignment, so they move by memcpy.
template <class T>
void transpose_plane(const std::byte* from, std::byte* to, const Axis& x, const Axis& y) {
  constexpr Index side = std::max<Index>(8, 64 / static_cast<Index>(sizeof(T)));
  std::array<T, side * side> square;
  // Squares in strips down `y`, a few lines wide, so that the lines of `to` that a strip half fills stay in the cache.
  for (Index i = 0; i < x.extent; i += side) {
    const Index wide = std::min(side, x.extent - i);
    for (Index j = 0; j < y.extent; j += side) {
      const Index high = std::min(side, y.extent - j);
      const std::byte* a = from + i * x.from + j * y.from;
      std::byte* b = to + i * x.to + j * y.to;
      if (wide == side && high == side && y.from == sizeof(T) && x.to == sizeof(T)) {
        for (Index r = 0; r < side; ++r)
          std::memcpy(&square[static_cast<std::size_t>(r * side)], a + r * x.from, side * sizeof(T));
        for (Index c = 0; c < side; ++c) {
          std::array<T, side> line;
          for (Index r = 0; r < side; ++r)
            line[static_cast<std::size_t>(r)] = square[static_cast<std::size_t>(r * side + c)];
          std::memcpy(b + c * y.to, line.data(), sizeof line);
        }
        continue;
      }
      for (Index c = 0; c < high; ++c)
        for (Index r = 0; r < wide; ++r) std::memcpy(b + c * y.to + r * x.to, a + c * y.from + r * x.from, sizeof(T));
    }
  }
}

template <class T>
void move(const std::byte* from, std::byte* to, std::vector<Axis> axes) {
  constexpr auto item = static_cast<Index>(sizeof(T));
  if (axes.empty()) {
    std::memcpy(to, from, sizeof(T));
    return;
  }
  const Axis run = axes.back();
  if (run.from == item && run.to == item) {
    for_each_place(axes, 1, [&](Index a, Index b) {
      std::memcpy(to + b, from + a, static_cast<std::size_t>(run.extent) * sizeof(T));
    });
    return;
  }
  std::size_t along = 0;  // the axis that runs along memory in `from`
  for (std::size_t d = 1; d < axes.size(); ++d)
    if (axes[d].from < axes[along].from) along = d;
  if (along + 1 == axes.size()) {  // the same axis in both, with gaps
    for_each_place(axes, 1, [&](Index a, Index b) {
      for (Index i = 0; i < run.extent; ++i) std::memcpy(to + b + i * run.to, from + a + i * run.from, sizeof(T));
    });
    return;
  }
  std::rotate(axes.begin() + static_cast<std::ptrdiff_t>(along), axes.begin() + static_cast<std::ptrdiff_t>(along) + 1,
              axes.end());
  std::swap(axes[axes.size() - 2], axes.back());
  const Axis x = axes.back(), y = axes[axes.size() - 2];
  for_each_place(axes, 2, [&](Index a, Index b) { transpose_plane<T>(from + a, to + b, x, y); });
}

struct Sixteen {
  std::uint64_t low, high;
};

}  // namespace

void rearrange(const Tile& from, const Tile& to) {
  if (from.shape != to.shape || from.dtype != to.dtype)
    throw ShapeError("rearrange: tiles are " + to_string(from.shape) + " " + std::string(name_of(from.dtype)) +
                     " and " + to_string(to.shape) + " " + std::string(name_of(to.dtype)) + "; they must be equal.");
  if (count(to.shape) == 0) return;
  std::vector<Axis> axes = axes_of(from, to);
  switch (size_of(to.dtype)) {
    case 1:
      return move<std::uint8_t>(from.data, to.data, std::move(axes));
    case 2:
      return move<std::uint16_t>(from.data, to.data, std::move(axes));
    case 4:
      return move<std::uint32_t>(from.data, to.data, std::move(axes));
    case 8:
      return move<std::uint64_t>(from.data, to.data, std::move(axes));
    default:
      return move<Sixteen>(from.data, to.data, std::move(axes));
  }
}

}  // namespace flagstone::kernel
