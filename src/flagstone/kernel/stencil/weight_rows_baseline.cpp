// The row loops of weights for every processor (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 16
#include "flagstone/kernel/stencil/weight_rows.hpp"

namespace flagstone::kernel {
WeightRowLoop weight_row_baseline(Dtype dtype, WeightsForm form) { return loop_of(dtype, form); }
}  // namespace flagstone::kernel
