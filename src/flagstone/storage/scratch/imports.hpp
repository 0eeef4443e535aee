#pragma once
// Imports that nobody needs any more: their file has gone or changed, or nobody has used them for long.
#include <chrono>
#include <string>

#include "flagstone/storage/file/lock.hpp"

namespace flagstone {

inline constexpr std::chrono::hours longest_unused{30 * 24};

/// Tells, until it is closed, that this process uses an import (`<key>.used` beside it, locked shared), and that it was
/// used now. None where it cannot be told: then nobody knows, and it may be swept.
FileLock use_import(const std::string& place);

/// Removes imports whose file has gone or is another one by now (device, inode, size or time), and those unused for so
/// long; not those that a process says it uses. Returns the bytes that are freed. Cost: a look at each source.
std::uint64_t sweep_imports(const std::string& scratch, std::chrono::seconds unused = longest_unused);

}  // namespace flagstone
