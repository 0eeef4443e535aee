// The loops over pairs of points for AVX-512 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 64
#include "flagstone/kernel/pairwise/pair_loops.hpp"

namespace flagstone::kernel {
const PairTable pairs_avx512 = make_table();
}
