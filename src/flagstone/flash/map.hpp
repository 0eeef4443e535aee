#pragma once
// A function of every element, and an associative function over all of them, out of core: over any Array and over disk
// pointers. The blocks follow from shapes, dtypes and chunks alone: same bits for every limit and number of workers.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/flash/flash_ptr.hpp"

namespace flagstone::flash {

/// How an array is cut: cells of some MiB, whole chunks where it is stored in chunks, runs of a flat file.
class Blocks {
 public:
  explicit Blocks(const Array& array);
  Index number() const { return number_; }
  /// In C order.
  Box operator[](Index i) const;

 private:
  Shape shape_, cell_;
  Index number_ = 1;
};

/// ShapeError unless the array holds `dtype`: nothing is converted here.
void check_elements(const char* who, const char* name, const Array& array, Dtype dtype);
void check_equal_shapes(const Array& x, const Array& y);
/// ShapeError where two ranges of one file overlap without being equal.
void check_apart(const FlashFile* x_file, std::uint64_t x_first, std::uint64_t x_bytes, const FlashFile* y_file,
                 std::uint64_t y_first, std::uint64_t y_bytes);

/// visit(offset in `a`, offset in `b`) for every element, in C order; both tiles have one shape.
template <class Visit>
void each_element(const Tile& a, const Tile& b, const Visit& visit, std::size_t axis = 0, Index in_a = 0,
                  Index in_b = 0) {
  if (axis == a.shape.size()) return visit(in_a, in_b);
  for (Index i = 0; i < a.shape[axis]; ++i)
    each_element(a, b, visit, axis + 1, in_a + i * a.strides[axis], in_b + i * b.strides[axis]);
}

/// An element at any alignment: flat files begin at any byte.
template <class T>
T element(const Tile& tile, Index offset) {
  T value;
  std::memcpy(&value, tile.data + offset, sizeof value);
  return value;
}

/// Adds the tasks of y[...] = f(x[...]). Elements are read and written once: (size of T + size of U) bytes each. `f` is
/// called at once on several threads. y may be x (T and U are one type then); other arrays must not overlap.
template <class T, class U, class F>
void map(Graph& graph, const Array& x, const Array& y, F f) {
  check_elements("map", "x", x, dtype_of<T>());
  check_elements("map", "y", y, dtype_of<U>());
  check_equal_shapes(x, y);
  const bool in_place = x.id() == y.id();
  const Blocks blocks(y);
  for (Index i = 0; i < blocks.number(); ++i) {
    const Box box = blocks[i];
    TaskSpec task;
    task.name = "map";
    if (in_place)
      task.accesses = {update({y, box})};
    else
      task.accesses = {read({x, box}), write({y, box})};
    task.cost.bytes_touched = static_cast<double>(count(box.shape)) * (sizeof(T) + sizeof(U));
    task.body = [f](std::span<const Tile> tiles) {
      const Tile &from = tiles.front(), &to = tiles.back();
      each_element(from, to, [&](Index in, Index out) {
        const U value = f(element<T>(from, in));
        std::memcpy(to.data + out, &value, sizeof value);
      });
    };
    graph.add(std::move(task));
  }
}

/// Folds all elements: merge(..., fold(fold(init, x0), x1) ...). Each block is folded from `init` in C order, blocks
/// are merged by halves in their order: `merge` is associative, and `init` leaves what it is merged with as it is (0 of
/// a sum). Reads every element once; holds one R a block, charged. Waits for all tasks; `init` where the graph only
/// counts.
template <class T, class R, class Fold, class Merge>
R reduce(Graph& graph, const Array& x, R init, Fold fold, Merge merge) {
  check_elements("reduce", "x", x, dtype_of<T>());
  const Blocks blocks(x);
  struct Slot {  // not a bool among bits: tasks write them at once
    R value;
  };
  const auto number = static_cast<std::size_t>(blocks.number());
  const Charge charge = graph.charge(align_up(std::max<std::size_t>(1, number * sizeof(Slot))));
  auto parts = std::make_shared<std::vector<Slot>>(graph.planning() ? 0 : number, Slot{init});
  for (Index i = 0; i < blocks.number(); ++i) {
    TaskSpec task;
    task.name = "reduce";
    const Box box = blocks[i];
    task.accesses = {read({x, box})};
    task.cost.bytes_touched = static_cast<double>(count(box.shape)) * sizeof(T);
    task.body = [parts, i, init, fold](std::span<const Tile> tiles) {
      R sum = init;
      each_element(tiles[0], tiles[0], [&](Index in, Index) { sum = fold(std::move(sum), element<T>(tiles[0], in)); });
      (*parts)[static_cast<std::size_t>(i)].value = std::move(sum);
    };
    graph.add(std::move(task));
  }
  graph.barrier();
  if (parts->empty()) return init;
  for (std::size_t step = 1; step < number; step *= 2)
    for (std::size_t i = 0; i + step < number; i += 2 * step)
      (*parts)[i].value = merge(std::move((*parts)[i].value), std::move((*parts)[i + step].value));
  return std::move(parts->front().value);
}
/// One function does both: R is T.
template <class T, class F>
T reduce(Graph& graph, const Array& x, T init, F f) {
  return reduce<T>(graph, x, std::move(init), f, f);
}

// ---- a graph of their own
// --------------------------------------------------------------------------------------------

template <class T, class U, class F>
Statistics map(Runtime& runtime, const Array& x, const Array& y, F f) {
  return runtime.run([&](Graph& graph) { map<T, U>(graph, x, y, f); });
}
template <class T, class R, class Fold, class Merge>
R reduce(Runtime& runtime, const Array& x, R init, Fold fold, Merge merge) {
  R result = init;
  runtime.run([&](Graph& graph) { result = reduce<T>(graph, x, init, fold, merge); });
  return result;
}
template <class T, class F>
T reduce(Runtime& runtime, const Array& x, T init, F f) {
  return reduce<T>(runtime, x, std::move(init), f, f);
}

/// y[i] = f(x[i]) for i < n, in place in y's file.
template <class T, class U, class F>
Statistics map(Runtime& runtime, const flash_ptr<T>& x, const flash_ptr<U>& y, Index n, F f) {
  const auto elements = static_cast<std::uint64_t>(n);
  check_apart(x.file().get(), x.offset(), elements * sizeof(T), y.file().get(), y.offset(), elements * sizeof(U));
  return map<std::remove_const_t<T>, U>(runtime, region(x, Contiguous{n}).array, region(y, Contiguous{n}).array, f);
}
template <class T, class R, class Fold, class Merge>
R reduce(Runtime& runtime, const flash_ptr<T>& x, Index n, R init, Fold fold, Merge merge) {
  return reduce<std::remove_const_t<T>>(runtime, region(x, Contiguous{n}).array, init, fold, merge);
}
template <class T, class F>
std::remove_const_t<T> reduce(Runtime& runtime, const flash_ptr<T>& x, Index n, std::remove_const_t<T> init, F f) {
  return reduce(runtime, x, n, init, f, f);
}

}  // namespace flagstone::flash
