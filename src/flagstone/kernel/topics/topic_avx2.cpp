// The loops over words for AVX2 with FMA (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 32
#include "flagstone/kernel/topics/topic_loops.hpp"

namespace flagstone::kernel {
const TopicTable topics_avx2 = make_table();
}
