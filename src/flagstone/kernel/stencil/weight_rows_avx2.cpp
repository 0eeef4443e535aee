// The row loops of weights for AVX2 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 32
#include "flagstone/kernel/stencil/weight_rows.hpp"

namespace flagstone::kernel {
WeightRowLoop weight_row_avx2(Dtype dtype, WeightsForm form) { return loop_of(dtype, form); }
}  // namespace flagstone::kernel
