// What the loader finds in this library.
#include "flagstone/runtime/spaces/cuda_library.hpp"

#include "flagstone/base/version.hpp"
#include "flagstone/cuda/cuda_device.hpp"

extern "C" __attribute__((visibility("default"))) const flagstone::CudaLibrary* flagstone_cuda_library() {
  static const flagstone::CudaLibrary table{.version = flagstone::version(),
                                            .devices = flagstone::cuda::devices,
                                            .open = flagstone::cuda::open,
                                            .open_memory = flagstone::cuda::open_memory};
  return &table;
}
