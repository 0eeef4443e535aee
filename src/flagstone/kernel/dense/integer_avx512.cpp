// Products of whole numbers for AVX-512 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 64
#include "flagstone/kernel/dense/integer_loops.hpp"

namespace flagstone::kernel {
const IntegerTable integers_avx512 = make_integer_table();
}
