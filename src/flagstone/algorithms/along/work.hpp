#pragma once
// What tasks of this room have in common: a call whose value does its work, and values of a pass as tiles.
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "flagstone/algorithms/elementwise/pass.hpp"
#include "flagstone/runtime/graph/call.hpp"

namespace flagstone::along {

/// The work of one call: which kernel, on which of the task's tiles.
struct Work : CallValue {
  virtual void run(std::span<const Tile> tiles) const = 0;
};

inline void run_work(const Call& call, std::span<const Tile> tiles) { call.value_as<Work>().run(tiles); }

template <class T>
Call call_of(Kernel kernel, Dtype dtype, std::shared_ptr<const T> work) {
  Call made(kernel, dtype, {});
  made.value = std::move(work);
  return made;
}

/// A tile of a task that lies in C order where its access begins: scratch, a part of a temporary array.
inline Tile dense(const Tile& tile, Dtype dtype, const Shape& shape) {
  const std::size_t item = size_of(dtype);
  return {tile.data, dtype, shape, c_strides(shape, item), static_cast<std::size_t>(count(shape)) * item};
}

/// Values of a box of a pass.
struct Visited {
  Visited() = default;
  Visited(const elementwise::VisitedValue& value, const Box& box) : value(value), shape(box.shape) {}
  Tile of(std::span<const Tile> tiles) const {
    return value.scratch ? dense(tiles[value.access], value.dtype, shape) : tiles[value.access];
  }
  elementwise::VisitedValue value;
  Shape shape;
};

/// The accesses that a task has beyond those of its pass.
inline std::uint32_t add_access(TaskSpec& task, Access access) {
  task.accesses.push_back(std::move(access));
  return static_cast<std::uint32_t>(task.accesses.size() - 1);
}

/// The tile of a pass whose results are also written to `out`, of the pass's chunks: whole ones of them.
Shape tile_with(const elementwise::Pass& pass, const Array& out);

}  // namespace flagstone::along
