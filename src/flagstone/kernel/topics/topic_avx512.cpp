// The loops over words for AVX-512 (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 64
#include "flagstone/kernel/topics/topic_loops.hpp"

namespace flagstone::kernel {
const TopicTable topics_avx512 = make_table();
}
