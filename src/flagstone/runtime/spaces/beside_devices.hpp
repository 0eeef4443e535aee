#pragma once
// The host's limit, where memories of devices lie in this process too.
#include <cstdint>

#include "flagstone/runtime/graph/options.hpp"

namespace flagstone {

/// Of so many resident bytes those that count against the host's limit: emulated devices, whose memory is resident from
/// the moment they are opened, have limits of their own.
std::uint64_t beside_devices(std::uint64_t resident, const RuntimeOptions& options);

}  // namespace flagstone
