#pragma once
// How fast workers compute, copy and unpack while all of them are busy.
#include <cstdint>

#include "flagstone/base/dtype.hpp"
#include "flagstone/gauge/busy_workers.hpp"

namespace flagstone::gauge {

/// Flops of C := A B + C on n x n tiles (float32, float64), BLAS with one thread. 3 n² elements a worker.
Rate gemm_rate(Dtype dtype, Index n, const Work& work);
/// Bytes read plus bytes written by a copy of `bytes`. 2 x bytes a worker.
Rate copy_rate(std::uint64_t bytes, const Work& work);
/// Unpacked bytes of blosc lz4 + shuffle: small counts as float32 and sorted columns as uint16, 128 Ki each, as a
/// sparse matrix has them. 2 MiB a worker.
Rate encode_rate(const Work& work);
Rate decode_rate(const Work& work);

}  // namespace flagstone::gauge
