// The element-wise loops for AVX2 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 32
#include "flagstone/kernel/elementwise/vector_folds.hpp"

namespace flagstone::kernel {
const LoopTable loops_avx2 = make_loops();
}
