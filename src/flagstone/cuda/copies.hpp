#pragma once
// Copies between the host and the device, of tiles as they are strided.
#include <cuda_runtime_api.h>

#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::cuda {

/// A copy as CUDA takes it: rows of `width` bytes, their pitches on either side; others of the same kind beside it.
struct Rows {
  std::size_t width = 0, height = 1;
  std::size_t from_pitch = 0, to_pitch = 0;
  struct Outer {
    Index extent, from, to;  // strides in bytes
  };
  std::vector<Outer> outer;
};
/// The fewest and longest rows: dimensions that lie together on both sides are one.
Rows rows_of(const Tile& from, const Tile& to);

/// Puts the copy onto the stream.
void copy_rows(cudaStream_t stream, const Tile& from, const Tile& to, cudaMemcpyKind direction);

}  // namespace flagstone::cuda
