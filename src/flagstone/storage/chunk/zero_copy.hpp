#pragma once
// Boxes inside one chunk that are read into the caller's memory without a copy.
#include <optional>

#include "flagstone/storage/chunk/chunk_layout.hpp"

namespace flagstone {

/// ArrayStore::read_straight of an array of chunks. None where chunks are packed, where the box has gaps in its chunk,
/// or where its rows in memory do not begin at blocks of the disk; then a chunk at the array's edge whose checksum
/// covers more than the box.
std::optional<Transfer> read_straight(const ChunkLayout& layout, const Box& box, const Tile& to,
                                      const ChunkLayout::Locate& locate);

}  // namespace flagstone
