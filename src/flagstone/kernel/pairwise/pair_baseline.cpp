// The loops over pairs of points for what every x86-64 has (and for others) (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 16
#include "flagstone/kernel/pairwise/pair_loops.hpp"

namespace flagstone::kernel {
const PairTable pairs_baseline = make_table();
}
