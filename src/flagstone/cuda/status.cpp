#include "flagstone/cuda/status.hpp"

namespace flagstone::cuda {
namespace {

/// Errors of one call alone; after any other the context is gone, and each later call answers with it.
bool of_the_call(cudaError_t status) {
  switch (status) {
    case cudaErrorInvalidValue:
    case cudaErrorMemoryAllocation:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidPitchValue:
    case cudaErrorInvalidDevice:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered:
    case cudaErrorNotSupported:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorNoKernelImageForDevice:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const std::string text = "cuda: " + std::string(what) + " failed: " + cudaGetErrorString(status);
  if (of_the_call(status)) {
    (void)cudaGetLastError();  // else the next launch is told of it
    throw DeviceError(text + ".");
  }
  throw LostDevice(text + "; the device does nothing more in this process, compute with devices=None.");
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  check(cudaPeekAtLastError(), what);
  throw DeviceError("cuda: " + std::string(what) + " failed: cuBLAS says " + cublasGetStatusString(status) + ".");
}

void check(cusolverStatus_t status, const char* what) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  check(cudaPeekAtLastError(), what);
  throw DeviceError("cuda: " + std::string(what) + " failed: cuSOLVER answers " +
                    std::to_string(static_cast<int>(status)) + ".");
}

}  // namespace flagstone::cuda
