// The loops over rows for AVX2 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 32
#include "flagstone/kernel/nearest/row_loops.hpp"

namespace flagstone::kernel {
const RowTable rows_avx2 = make_table();
}
