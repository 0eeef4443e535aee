#include "flagstone/cuda/copies.hpp"

#include "flagstone/base/grid.hpp"
#include "flagstone/cuda/status.hpp"
#include "flagstone/runtime/spaces/strided_rows.hpp"

namespace flagstone::cuda {

void copy_rows(cudaStream_t stream, const Tile& from, const Tile& to, cudaMemcpyKind direction) {
  if (count(to.shape) == 0) return;
  const StridedRows rows = rows_of(from, to);
  Shape extents, at(rows.outer.size(), 0);
  for (const StridedRows::Outer& d : rows.outer) extents.push_back(d.extent);
  do {
    std::byte *source = from.data, *target = to.data;
    for (std::size_t i = 0; i < at.size(); ++i)
      source += at[i] * rows.outer[i].from, target += at[i] * rows.outer[i].to;
    if (rows.height == 1)
      check(cudaMemcpyAsync(target, source, rows.width, direction, stream), "a copy");
    else
      check(
          cudaMemcpy2DAsync(target, rows.to_pitch, source, rows.from_pitch, rows.width, rows.height, direction, stream),
          "a copy");
  } while (!extents.empty() && advance(at, extents));
}

}  // namespace flagstone::cuda
