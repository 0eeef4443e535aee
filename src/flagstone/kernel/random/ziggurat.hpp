#pragma once
// Normal and exponential numbers by the ziggurat (Marsaglia and Tsang 2000) with 256 layers: a table and a comparison
// for 99 of 100, from one word of 64 bits: eight choose the layer, one the sign, 53 the place in it.
#include "flagstone/kernel/random/philox.hpp"

namespace flagstone::kernel {

/// to[i] := the number of word i, which is that of place first + i.
void standard_normal(const Stream& stream, std::uint64_t first, const std::uint64_t* words, std::int64_t n, double* to);
void standard_exponential(const Stream& stream, std::uint64_t first, const std::uint64_t* words, std::int64_t n,
                          double* to);

}  // namespace flagstone::kernel
