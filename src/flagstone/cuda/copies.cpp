#include "flagstone/cuda/copies.hpp"

#include <algorithm>
#include <limits>

#include "flagstone/base/grid.hpp"
#include "flagstone/cuda/status.hpp"

namespace flagstone::cuda {
namespace {

constexpr Index longest_pitch = std::numeric_limits<std::int32_t>::max();  // of cudaMemcpy2D (cudaDeviceProp::memPitch)

bool pitched(const Rows::Outer& d, std::size_t width) {
  const auto least = static_cast<Index>(width);
  return d.from >= least && d.to >= least && d.from <= longest_pitch && d.to <= longest_pitch;
}

}  // namespace

Rows rows_of(const Tile& from, const Tile& to) {
  const auto item = static_cast<Index>(size_of(to.dtype));
  std::vector<Rows::Outer> all;
  for (std::size_t d = 0; d < to.shape.size(); ++d)
    if (to.shape[d] != 1) all.push_back({to.shape[d], from.strides[d], to.strides[d]});
  std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.to < y.to; });
  Rows rows;
  rows.width = static_cast<std::size_t>(item);
  for (const Rows::Outer& d : all) {
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

void copy_rows(cudaStream_t stream, const Tile& from, const Tile& to, cudaMemcpyKind direction) {
  if (count(to.shape) == 0) return;
  const Rows rows = rows_of(from, to);
  Shape extents, at(rows.outer.size(), 0);
  for (const Rows::Outer& d : rows.outer) extents.push_back(d.extent);
  do {
    std::byte *source = from.data, *target = to.data;
    for (std::size_t i = 0; i < at.size(); ++i) source += at[i] * rows.outer[i].from, target += at[i] * rows.outer[i].to;
    if (rows.height == 1)
      check(cudaMemcpyAsync(target, source, rows.width, direction, stream), "a copy");
    else
      check(cudaMemcpy2DAsync(target, rows.to_pitch, source, rows.from_pitch, rows.width, rows.height, direction, stream),
            "a copy");
  } while (!extents.empty() && advance(at, extents));
}

}  // namespace flagstone::cuda
