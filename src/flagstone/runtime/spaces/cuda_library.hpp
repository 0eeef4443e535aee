#pragma once
// What the library of CUDA's devices offers to who opened it: one table, got by name.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flagstone/runtime/spaces/device.hpp"

namespace flagstone {

struct CudaLibrary {
  static constexpr std::uint32_t current_abi = 1;
  static constexpr char symbol[] = "flagstone_cuda_library";

  std::uint32_t abi = current_abi;
  std::uint32_t tile_bytes = sizeof(Tile),
                call_bytes = sizeof(Call);  // two compilers that agree on names may not on these
  const char* version = nullptr;            // of Flagstone
  std::vector<DeviceProperties> (*devices)(std::string* why_not) = nullptr;
  std::shared_ptr<Device> (*open)(int ordinal, std::uint64_t memory, const std::string& precision) = nullptr;
  std::shared_ptr<Device> (*open_memory)(int ordinal, std::uint64_t memory) = nullptr;
};
using CudaLibraryEntry = const CudaLibrary* (*)();

}  // namespace flagstone
