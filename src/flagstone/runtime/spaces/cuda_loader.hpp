#pragma once
// NVIDIA's devices, from a library that is opened when the first one is asked for; nothing here needs CUDA.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flagstone/runtime/spaces/device.hpp"

namespace flagstone {

/// The devices there are; `memory` is what is free. None: `why_not` (may be null) says what is missing, in one
/// sentence.
std::vector<DeviceProperties> cuda_devices(std::string* why_not = nullptr);
/// Takes `memory` bytes of device `ordinal`, a part of which stays with the libraries' own workspaces. `precision`:
/// empty, or "tf32": products of float32 then round their operands to 11 bits. Error with one sentence where the
/// driver, the device or the library is missing, too old or of another make, or where so much memory is not free.
std::shared_ptr<Device> open_cuda(int ordinal, std::uint64_t memory, const std::string& precision = {});

/// Memory of a device that copies reach, without kernels and their libraries: all of it may be handed out.
std::shared_ptr<Device> open_cuda_memory(int ordinal, std::uint64_t memory);

}  // namespace flagstone
