// The loops over rows for AVX-512 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 64
#include "flagstone/kernel/nearest/row_loops.hpp"

namespace flagstone::kernel {
const RowTable rows_avx512 = make_table();
}
