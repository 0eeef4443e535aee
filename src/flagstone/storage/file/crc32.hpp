#pragma once
// The checksum of zip and gzip (CRC-32 of IEEE 802.3).
#include <cstddef>
#include <cstdint>

namespace flagstone {

/// `before`: the checksum of what comes before. Some 8 GB/s a core with carry-less multiplication, where the processor
/// has it (zlib 1.2: 2.5 GB/s); else by table.
std::uint32_t crc32(const void* data, std::size_t size, std::uint32_t before = 0) noexcept;
/// The same byte by byte.
std::uint32_t crc32_by_table(const void* data, std::size_t size, std::uint32_t before = 0) noexcept;

}  // namespace flagstone
