#pragma once
// Boxes of chunks on their way from the disk.
#include <cstddef>
#include <vector>

#include "flagstone/storage/chunk/chunk_layout.hpp"

namespace flagstone {

/// ArrayStore::read of an array of chunks, which lie where `find` says. ShapeError unless the box lies in the array.
Transfer read_chunks(const ChunkLayout& layout, const Box& box, const ChunkLayout::Locate& find);
/// ArrayStore::geometry. Of raw chunks that go where they belong as they are nothing is asked; what staging takes
/// depends on the place of each.
Transfer geometry_of_chunks(const ChunkLayout& layout, const Box& box, const ChunkLayout::Locate& find);
/// ArrayStore::read_joined.
std::vector<PartRead> read_joined_chunks(const ChunkLayout& layout, const Box& box, const Tile& to,
                                         std::size_t most_bytes, const ChunkLayout::Locate& find);

}  // namespace flagstone
