#include "flagstone/runtime/spaces/strided_rows.hpp"

#include <algorithm>
#include <limits>

namespace flagstone {
namespace {

constexpr Index longest_pitch = std::numeric_limits<std::int32_t>::max();  // that a card copies by itself

bool pitched(const StridedRows::Outer& d, std::size_t width) {
  const auto least = static_cast<Index>(width);
  return d.from >= least && d.to >= least && d.from <= longest_pitch && d.to <= longest_pitch;
}

}  // namespace

StridedRows rows_of(const Tile& from, const Tile& to) {
  const auto item = static_cast<Index>(size_of(to.dtype));
  std::vector<StridedRows::Outer> all;
  for (std::size_t d = 0; d < to.shape.size(); ++d)
    if (to.shape[d] != 1) all.push_back({to.shape[d], from.strides[d], to.strides[d]});
  std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.to < y.to; });
  StridedRows rows;
  rows.width = static_cast<std::size_t>(item);
  for (const StridedRows::Outer& d : all) {
    const auto width = static_cast<Index>(rows.width);
    if (rows.outer.empty() && d.from == width && d.to == width) {
      rows.width *= static_cast<std::size_t>(d.extent);
    } else if (!rows.outer.empty() && d.from == rows.outer.back().from * rows.outer.back().extent &&
               d.to == rows.outer.back().to * rows.outer.back().extent) {
      rows.outer.back().extent *= d.extent;
    } else {
      rows.outer.push_back(d);
    }
  }
  // The longest of the dimensions that may be a pitch goes into each call.
  auto best = rows.outer.end();
  for (auto d = rows.outer.begin(); d != rows.outer.end(); ++d)
    if (pitched(*d, rows.width) && (best == rows.outer.end() || d->extent > best->extent)) best = d;
  rows.from_pitch = rows.to_pitch = rows.width;
  if (best != rows.outer.end()) {
    rows.height = static_cast<std::size_t>(best->extent);
    rows.from_pitch = static_cast<std::size_t>(best->from), rows.to_pitch = static_cast<std::size_t>(best->to);
    rows.outer.erase(best);
  }
  return rows;
}

}  // namespace flagstone
