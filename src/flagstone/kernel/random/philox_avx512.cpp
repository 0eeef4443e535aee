// The generator for AVX-512 (flags in CMakeLists.txt).
#include "flagstone/kernel/random/philox_blocks.hpp"

namespace flagstone::kernel {
void philox_blocks_avx512(const Stream& stream, std::uint64_t first, std::int64_t n, std::uint64_t* to) {
  blocks(stream, first, n, to);
}
}  // namespace flagstone::kernel
