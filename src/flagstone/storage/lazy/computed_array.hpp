#pragma once
// Arrays whose boxes a function makes: of its own place, and of boxes of other arrays.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// How boxes are made. Every element must follow from its place and its operands alone, whatever the box.
struct Computation {
  /// A box of an operand; the same box twice is loaded once.
  struct Part {
    std::size_t operand;
    Box box;
    bool operator==(const Part&) const = default;
  };

  std::vector<Array> operands;
  /// What a box is made of; empty: nothing.
  std::function<std::vector<Part>(const Box&)> parts;
  double flops = 0;  // of one element
  /// Memory that a box takes while it is made, beside itself and its parts.
  std::function<std::size_t(const Box&)> work_bytes;
  /// (box, its parts in their order, a tile in C order, work_bytes). On a worker.
  std::function<void(const Box&, std::span<const Tile>, const Tile&, std::byte*)> compute;
};

/// Chunks are those of an array of this shape and dtype that is stored: so are tiles, and bits. What is computed so is
/// computed each time that it is loaded, never kept aside.
Array computed_array(const Shape& shape, Dtype dtype, Computation computation);

}  // namespace flagstone
