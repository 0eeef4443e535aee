#pragma once
// Copies between the host and the device, of tiles as they are strided.
#include <cuda_runtime_api.h>

#include "flagstone/base/shape.hpp"

namespace flagstone::cuda {

/// Puts the copy onto the stream.
void copy_rows(cudaStream_t stream, const Tile& from, const Tile& to, cudaMemcpyKind direction);

}  // namespace flagstone::cuda
