// The element-wise loops for any processor.
#define FLAGSTONE_VECTOR_BYTES 16
#include "flagstone/kernel/elementwise/vector_folds.hpp"

namespace flagstone::kernel {
const LoopTable loops_baseline = make_loops();
}
