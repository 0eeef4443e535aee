#include "flagstone/base/version.hpp"

namespace flagstone {

const char* version() { return FLAGSTONE_VERSION; }

}  // namespace flagstone
