#pragma once
// What is restructured, with its dimensions in the order of the result: how it lies, and in which pieces it is read.
#include <functional>
#include <utility>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone::restructure {

/// Dimension i of the result is dimension axes[i] of the array.
struct Source {
  Array array;
  std::vector<std::size_t> axes;
};

/// How a source or a result lies, with dimensions in the order of the result.
struct Lie {
  Shape shape;
  Shape chunks;  // stored units; what never crosses them is read at once. The shape where there are none
  std::vector<std::size_t> order;  // of the dimensions in a chunk, slowest first
  std::size_t item = 1;
  bool packed = false;       // a chunk is read and unpacked whole
  bool free = false;         // flat files, memory: any box, without chunks
  bool memory = false;       // nothing is read
  std::uint64_t unpack = 0;  // bytes beside a chunk that is unpacked
  /// Bytes beside a piece of these extents while it is loaded: of a computed array its operands. Empty: none.
  std::function<std::uint64_t(const Shape& piece)> staging;

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(count(shape)) * item; }
};

Lie lie_of(const Source& source);
/// Flat files (.npy, raw): boxes without regard to chunks.
bool is_flat(const Array& array);
/// `shape` in the order of the result; and a box of the result in the source's own order.
Shape seen(const Source& source, const Shape& shape);
Box own(const Source& source, const Box& box);

/// `extents` cut along the slowest dimensions until it takes at most `most` bytes: still contiguous in storage.
Shape slab(Shape extents, const Lie& lie, std::uint64_t most);
/// Contiguous bytes of a part with these extents, in chunks of `lie` (or in the whole, where there are none).
std::uint64_t run_bytes(const Lie& lie, const Shape& part);

/// The pieces in which a box is read: for each dimension intervals, whose products are the pieces. Whole pieces start
/// anew at every chunk and do not end with the box, so that neighbouring boxes share them; parts end with the box.
class Pieces {
 public:
  Pieces(const Lie& lie, const Shape& piece, bool parts, const Box& box);
  /// Those that overlap `part`, which lies in the box. C order.
  std::vector<Box> over(const Box& part) const;

 private:
  std::vector<std::vector<std::pair<Index, Index>>> cuts_;  // start, end
};

}  // namespace flagstone::restructure
