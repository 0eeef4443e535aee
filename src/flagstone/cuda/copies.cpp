#include "flagstone/cuda/copies.hpp"

#include "flagstone/cuda/status.hpp"
#include "flagstone/runtime/spaces/strided_rows.hpp"

namespace flagstone::cuda {

void copy_rows(cudaStream_t stream, const Tile& from, const Tile& to, cudaMemcpyKind direction) {
  const StridedRows rows = rows_of(from, to);
  each_block(rows, from, to, [&](std::byte* source, std::byte* target) {
    if (rows.height == 1)
      check(cudaMemcpyAsync(target, source, rows.width, direction, stream), "a copy");
    else
      check(
          cudaMemcpy2DAsync(target, rows.to_pitch, source, rows.from_pitch, rows.width, rows.height, direction, stream),
          "a copy");
  });
}

}  // namespace flagstone::cuda
