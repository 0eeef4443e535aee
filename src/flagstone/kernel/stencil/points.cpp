#include "flagstone/kernel/stencil/points.hpp"

#include <algorithm>
#include <cstring>

namespace flagstone::kernel {

Range3 intersect(const Range3& a, const Range3& b) {
  Range3 common;
  for (std::size_t d = 0; d < 3; ++d) {
    common.first[d] = std::max(a.first[d], b.first[d]);
    common.last[d] = std::max(common.first[d], std::min(a.last[d], b.last[d]));
  }
  return common;
}

Range3 grown(Range3 range, const Axes& by) {
  for (std::size_t d = 0; d < 3; ++d) range.first[d] -= by[d], range.last[d] += by[d];
  return range;
}

Range3 moved(Range3 range, const Axes& by) {
  for (std::size_t d = 0; d < 3; ++d) range.first[d] += by[d], range.last[d] += by[d];
  return range;
}

void copy_points(const Points& from, const Points& to, const Range3& range, std::size_t item) {
  if (range.empty()) return;
  const auto bytes = static_cast<std::size_t>(range.extent(2)) * item;
  const bool dense = from.strides[2] == static_cast<Index>(item) || range.extent(2) == 1;
  for (Index z = range.first[0]; z < range.last[0]; ++z)
    for (Index y = range.first[1]; y < range.last[1]; ++y) {
      const std::byte* const row = from.at(z, y, range.first[2]);
      std::byte* target = to.at(z, y, range.first[2]);
      if (dense) {
        std::memcpy(target, row, bytes);
        continue;
      }
      for (Index x = 0; x < range.extent(2); ++x, target += item) std::memcpy(target, row + x * from.strides[2], item);
    }
}

}  // namespace flagstone::kernel
