#pragma once
// Sizes in bytes as people write them.
#include <cstdint>
#include <string>
#include <string_view>

namespace flagstone {

inline constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
inline constexpr std::uint64_t page_bytes = 4096;  // every buffer, slot and shard is aligned to it

inline std::uint64_t align_up(std::uint64_t n, std::uint64_t to = page_bytes) { return (n + to - 1) / to * to; }
inline std::uint64_t align_down(std::uint64_t n, std::uint64_t to = page_bytes) { return n / to * to; }
/// "1.5 GiB", "512 MiB", "37 B": at most one decimal.
std::string format_bytes(std::uint64_t bytes);
/// "4GiB", "512 MiB", "1.5g", "300MB" (decimal), "1000" (bytes). Throws Error with an example otherwise.
std::uint64_t parse_bytes(std::string_view text);

}  // namespace flagstone
