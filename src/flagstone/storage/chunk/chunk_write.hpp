#pragma once
// Boxes of chunks on their way to the disk.
#include "flagstone/storage/chunk/chunk_layout.hpp"

namespace flagstone {

/// ArrayStore::write of an array of chunks, which go where `place` says. ShapeError unless the box covers whole chunks.
/// Without `place` the transfer is for plans: all of every slot.
Transfer write_chunks(const ChunkLayout& layout, const Box& box, const ChunkLayout::Place& place = {});
/// ArrayStore::write_staging of the same, which lists no chunk where they leave from the tile's buffer.
std::size_t staging_of_write(const ChunkLayout& layout, const Box& box);
/// ArrayStore::write_joined.
Transfer write_joined_chunks(const ChunkLayout& layout, const Box& box, const Tile& from,
                             const ChunkLayout::Place& place);

}  // namespace flagstone
