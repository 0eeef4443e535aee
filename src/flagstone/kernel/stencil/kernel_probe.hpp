#pragma once
// How fast a kernel is here: rows from the cache, and plain sweeps out of memory.
#include "flagstone/base/dtype.hpp"
#include "flagstone/kernel/stencil/plane_kernel.hpp"

namespace flagstone::kernel {

/// What a kernel reads beside the field, and how long its rows are.
struct ProbedKernel {
  const PlaneKernel* kernel = nullptr;
  Dtype dtype = Dtype::float32;
  bool before = false;
  std::size_t coefficients = 0;
  Axes shape{1, 1, 1};  // of the field
};

/// Updates a second of so many threads at once.
struct KernelRates {
  double cached = 0, streaming = 0;
};

/// Bytes that the probe takes for a time.
std::uint64_t probe_bytes(const ProbedKernel& probed, int threads);
/// Takes about `seconds`, and one sweep of each thread's block at least: under half a second with 0.2.
KernelRates probe(const ProbedKernel& probed, int threads, double seconds);

}  // namespace flagstone::kernel
