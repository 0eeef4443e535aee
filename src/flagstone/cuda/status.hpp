#pragma once
// What CUDA's libraries answer, as errors in one sentence.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <string>

#include "flagstone/base/error.hpp"

namespace flagstone::cuda {

/// The device does nothing more in this process.
struct LostDevice : DeviceError {
  using DeviceError::DeviceError;
};

/// `what`: "a copy", as in "cuda: a copy failed: ...". LostDevice for an error after which CUDA answers nothing else.
void check(cudaError_t status, const char* what);
void check(cublasStatus_t status, const char* what);
void check(cusolverStatus_t status, const char* what);

}  // namespace flagstone::cuda
