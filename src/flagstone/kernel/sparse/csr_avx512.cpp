// The sparse row loops for AVX-512 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 64
#include "flagstone/kernel/sparse/csr_rows.hpp"

namespace flagstone::kernel {
const SparseTable sparse_avx512 = make_table();
}
