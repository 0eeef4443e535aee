#pragma once
// How fast workers compute, copy and unpack while all of them are busy.
#include <cstdint>

#include "flagstone/base/dtype.hpp"

namespace flagstone::gauge {

/// Units a second of one worker, all workers busy. Where other programs took processor time, `busy` is larger than
/// `elapsed`: what the worker does in a second that it really gets.
struct Rate {
  double elapsed = 0;  // units by the clock on the wall
  double busy = 0;     // units by processor time
};

struct Work {
  int workers = 1;
  double seconds = 0.1;  // repeats begin for so long; at least one
};

/// Flops of C := A B + C on n x n tiles (float32, float64), BLAS with one thread. 3 n² elements a worker.
Rate gemm_rate(Dtype dtype, Index n, const Work& work);
/// Bytes read plus bytes written by a copy of `bytes`. 2 x bytes a worker.
Rate copy_rate(std::uint64_t bytes, const Work& work);
/// Unpacked bytes of blosc lz4 + shuffle: small counts as float32 and sorted columns as uint16, 128 Ki each, as a
/// sparse matrix has them. 2 MiB a worker.
Rate encode_rate(const Work& work);
Rate decode_rate(const Work& work);

}  // namespace flagstone::gauge
