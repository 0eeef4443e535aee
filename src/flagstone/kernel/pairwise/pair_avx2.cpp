// The loops over pairs of points for AVX2 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 32
#include "flagstone/kernel/pairwise/pair_loops.hpp"

namespace flagstone::kernel {
const PairTable pairs_avx2 = make_table();
}
