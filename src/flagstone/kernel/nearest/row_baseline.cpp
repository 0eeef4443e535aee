// The loops over rows for any processor (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 16
#include "flagstone/kernel/nearest/row_loops.hpp"

namespace flagstone::kernel {
const RowTable rows_baseline = make_table();
}
