#pragma once
// Apart from file.cpp: the kernel's header knows fields that the C library's does not, and they exclude each other.
#include <cstddef>

namespace flagstone {

/// What offsets, lengths and memory of direct transfers must be multiples of; 512 where the kernel (before 6.1) or the
/// file system does not say.
std::size_t direct_block_of(int descriptor);

}  // namespace flagstone
