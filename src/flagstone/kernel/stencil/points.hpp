#pragma once
// Points of a field as kernels see them: three axes (the slowest first; those that a field has not are 1 long), global
// indices, memory that holds a part of them.
#include <array>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

using Axes = std::array<Index, 3>;

/// [first, last) along each axis; of a periodic axis it may reach beyond the field.
struct Range3 {
  Axes first{}, last{};
  Index extent(std::size_t d) const { return last[d] - first[d]; }
  bool empty() const { return extent(0) <= 0 || extent(1) <= 0 || extent(2) <= 0; }
  Index count() const { return empty() ? 0 : extent(0) * extent(1) * extent(2); }
  bool operator==(const Range3&) const = default;
};
Range3 intersect(const Range3& a, const Range3& b);
/// Grown on both sides, along each axis by its own length.
Range3 grown(Range3 range, const Axes& by);
Range3 moved(Range3 range, const Axes& by);

/// Memory that holds the points of a range; strides in bytes, the last axis dense (or 0: broadcast along it).
struct Points {
  std::byte* data = nullptr;
  Axes first{};
  Axes strides{};

  std::byte* at(Index z, Index y, Index x) const {
    return data + (z - first[0]) * strides[0] + (y - first[1]) * strides[1] + (x - first[2]) * strides[2];
  }
};

/// to := from on a range that both hold.
void copy_points(const Points& from, const Points& to, const Range3& range, std::size_t item);

}  // namespace flagstone::kernel
