// Products of whole numbers for AVX2 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 32
#include "flagstone/kernel/dense/integer_loops.hpp"

namespace flagstone::kernel {
const IntegerTable integers_avx2 = make_integer_table();
}
