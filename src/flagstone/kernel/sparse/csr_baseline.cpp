// The sparse row loops for any processor.
#define FLAGSTONE_VECTOR_BYTES 16
#include "flagstone/kernel/sparse/csr_rows.hpp"

namespace flagstone::kernel {
const SparseTable sparse_baseline = make_table();
}
