#pragma once
// Boxes of several arrays as one transfer: what a computed tile is made of, in its staging buffer.
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// Collects the boxes, then makes the transfer. Staging holds a buffer for each box that comes from a disk, then what
/// its own transfer stages; its end is memory to compute in, which the boxes' own conversions use one after the other.
/// So everything is part of one transfer, and whoever charges that has charged all.
class Gather {
 public:
  /// (the boxes as tiles in the order in which they were added, the buffer of the result, work_bytes of memory).
  using Compute = std::function<void(std::span<const Tile> parts, std::byte* buffer, std::byte* work)>;

  Gather();
  /// A box that is not empty; one of an array in memory is looked at where it lies.
  void add(const Array& array, const Box& box);
  /// The transfer of a tile with this geometry.
  Transfer finish(Transfer geometry, std::size_t work_bytes, Compute compute) &&;

 private:
  struct Part {
    Array array;        // kept alive
    Transfer transfer;  // without its segments
    Tile tile;          // its data: in memory, or set when the buffer is there
    std::size_t buffer = 0, staging = 0;
  };
  std::shared_ptr<std::vector<Part>> parts_;
  std::vector<Segment> segments_;
  std::size_t staged_ = 0, work_ = 0, listed_ = 0;
  double flops_ = 0;
};

/// The geometry of a dense tile.
Transfer dense_geometry(const Shape& box, std::size_t item, bool column_major);

}  // namespace flagstone
