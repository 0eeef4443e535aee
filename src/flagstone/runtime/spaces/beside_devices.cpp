#include "flagstone/runtime/spaces/beside_devices.hpp"

#include <algorithm>

#include "flagstone/runtime/spaces/device.hpp"

namespace flagstone {

std::uint64_t beside_devices(std::uint64_t resident, const RuntimeOptions& options) {
  std::uint64_t emulated = 0;
  for (const auto& device : options.devices)
    if (device->properties().kind == "emulated") emulated += device->properties().memory;
  return resident - std::min(resident, emulated);
}

}  // namespace flagstone
