#pragma once
// How much room is left on a file system.
#include <cstdint>
#include <string>

namespace flagstone {

/// Bytes that this user may still write where `path` lies, quotas apart; all there can be where nobody says.
std::uint64_t free_bytes(const std::string& path);

}  // namespace flagstone
