// The sparse row loops for AVX2 with FMA (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 32
#include "flagstone/kernel/sparse/csr_rows.hpp"

namespace flagstone::kernel {
const SparseTable sparse_avx2 = make_table();
}
