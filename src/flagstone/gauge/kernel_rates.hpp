#pragma once
// How fast the kernels of factorizations are on tiles, for plans that know more than the rate of gemm.
#include <string>
#include <vector>

#include "flagstone/base/dtype.hpp"
#include "flagstone/gauge/busy_workers.hpp"

namespace flagstone::gauge {

/// What kernel_rate measures, by name: gemm, herk, trsm, potrf, ...
std::vector<std::string> rated_kernels();

struct KernelWork {
  double flops = 0;  // of one call, as tasks state them
  Rate rate;         // flops a second
};
/// One kernel on tiles of n x n (float32 or float64), as a task calls it, BLAS with one thread. Error for a kernel that
/// is not measured. 4 n² elements a worker.
KernelWork kernel_rate(const std::string& kernel, Dtype dtype, Index n, const Work& work);

}  // namespace flagstone::gauge
