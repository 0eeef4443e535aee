// Products of whole numbers for every processor (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 16
#include "flagstone/kernel/dense/integer_loops.hpp"

namespace flagstone::kernel {
const IntegerTable integers_baseline = make_integer_table();
}
