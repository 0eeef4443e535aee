// The element-wise loops for AVX-512 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 64
#include "flagstone/kernel/elementwise/vector_folds.hpp"

namespace flagstone::kernel {
const LoopTable loops_avx512 = make_loops();
}
