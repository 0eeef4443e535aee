#pragma once
// Running sums and products, and differences of neighbours, along one dimension of a tile.
#include <cstdint>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

enum class Scan : std::uint8_t { sum, prod };

struct ScanOptions {
  Scan scan = Scan::sum;
  std::size_t axis = 0;
  bool first = false;    // nothing comes before: what stands in the carry is overwritten
  bool initial = false;  // the result of nothing comes first: element i is of what lies before i
};

/// Goes along the axis one element after the other, in the tiles' dtype, as numpy.add.accumulate does: so the result is
/// the same however an array is cut. `from` has the extents of `to`, or with `initial` one less along the axis; `carry`
/// (extent 1 there) is what all elements before gave, and becomes what those of this tile give too. Any strides.
void scan(const ScanOptions& options, const Tile& from, const Tile& to, const Tile& carry);

/// to[i] := from[i + 1] - from[i] along the axis, `times` over. What follows `from` there stands in `next`, of at least
/// `times` elements, or fewer where the array ends: `to` is as long as that makes it. `work`: work_bytes.
void difference(int times, std::size_t axis, const Tile& from, const Tile* next, const Tile& to, std::byte* work);
/// Of a tile of this shape: none where `times` is 1.
std::size_t difference_work_bytes(int times, std::size_t axis, const Shape& shape, Dtype dtype);

}  // namespace flagstone::kernel
