#pragma once
// Which flagstone this is.

namespace flagstone {

/// As "0.1.0".
const char* version();

}  // namespace flagstone
