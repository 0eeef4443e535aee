#pragma once
// What of the processor's caches one worker has for itself.
#include <cstdint>
#include <filesystem>

namespace flagstone::stencil {

/// Bytes that one worker's steps find in the cache: the second level and its share of the third, by what the system
/// says of its first processor; between 1 and 6 MiB, beyond which nothing is gained (measured: 4 to 8 MiB are alike).
/// 4 MiB where it says nothing. Asked once.
std::uint64_t worker_cache();
/// The same of a folder like /sys/devices/system/cpu/cpu0/cache; 0: nothing is said there.
std::uint64_t worker_cache(const std::filesystem::path& folder);

}  // namespace flagstone::stencil
