// The loops over words for any processor (flags in CMakeLists.txt).
#define FLAGSTONE_VECTOR_BYTES 16
#include "flagstone/kernel/topics/topic_loops.hpp"

namespace flagstone::kernel {
const TopicTable topics_baseline = make_table();
}
