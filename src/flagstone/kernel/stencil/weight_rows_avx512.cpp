// The row loops of weights for AVX-512 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 64
#include "flagstone/kernel/stencil/weight_rows.hpp"

namespace flagstone::kernel {
WeightRowLoop weight_row_avx512(Dtype dtype, WeightsForm form) { return loop_of(dtype, form); }
}  // namespace flagstone::kernel
