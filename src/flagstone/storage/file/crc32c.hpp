#pragma once
// The checksum of shard indexes (Castagnoli polynomial), in hardware where the processor has it.
#include <cstddef>
#include <cstdint>

namespace flagstone {

/// crc32c of `size` bytes; `before` continues an earlier result.
std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t before = 0) noexcept;
/// The same, a byte at a time from a table: what processors without the instruction use.
std::uint32_t crc32c_by_table(const void* data, std::size_t size, std::uint32_t before = 0) noexcept;

}  // namespace flagstone
