#pragma once
// How the elements of a box of chunks lie in memory, for reading and for writing alike.
#include <optional>
#include <vector>

#include "flagstone/storage/chunk/chunk_layout.hpp"

namespace flagstone {

/// How the elements of a box lie in the tile's buffer.
enum class Placing {
  chunk,    // one whole chunk: the stored bytes are the tile
  part,     // inside one raw chunk: the pages around its byte range are the tile
  scatter,  // several whole raw chunks, each put in place row by row
  staging,  // anything else: assembled from a staging buffer
};

/// The contiguous byte range of a chunk that holds a part of it (counted from the chunk's first element).
struct ByteRange {
  std::uint64_t begin = 0, end = 0;
};
ByteRange byte_range(const Box& part, const Shape& strides, std::size_t item);

/// A chunk inside a padded C-order buffer: `rows` runs of row_bytes, pitch apart.
struct Rows {
  std::size_t row_bytes, rows, pitch;
};

struct Geometry {
  Placing placing = Placing::staging;
  Transfer transfer;
  Shape padded;  // extents of the buffer, in elements (chunk, scatter)
  Rows rows{};   // scatter
};
/// Of ordinary memory, for each chunk of a transfer: its request, place and checksum where it goes where it belongs;
/// its piece of the box too where it is assembled (250 and 600 measured, of arrays of a hundred thousand chunks).
inline constexpr std::size_t listed_in_place = 256, listed_assembled = 640;

/// Its transfer says what listing the chunks takes.
Geometry geometry_of(const ChunkLayout& layout, const Box& box);

/// One chunk's share of a box, for assembling from staging.
struct Piece {
  Box in_box, in_chunk;       // counted from the box's and the chunk's first element
  std::size_t staged = 0;     // where its stored bytes (or its fetched range) start in the staging buffer
  std::uint64_t skipped = 0;  // raw: bytes of the chunk before the fetched range
  std::uint64_t bytes = 0;    // stored; 0: absent
  std::uint32_t mask = 0;     // EncodedChunk::skipped
  Shape chunk;
  std::optional<std::uint32_t> crc = {};  // of the stored bytes, where all of them are fetched
};
Piece piece_of(const ChunkLayout& layout, const Box& box, const Shape& chunk);

/// How a stored chunk lies in the buffer of a box that is chunks as they are.
Rows rows_of(const ChunkLayout& layout, const Geometry& g);
/// Where a chunk starts in the padded buffer of a scattered box.
std::size_t position(const ChunkLayout& layout, const Box& box, const Shape& chunk, const Shape& strides);
/// crc32c of a whole chunk in memory.
std::uint32_t crc_of(const std::byte* data, const Rows& rows);
/// The request for a whole chunk that is put in place row by row.
Segment scattered(const StoredChunk& stored, const Rows& rows, std::size_t at);
/// The request for bytes [begin, end) of a stored chunk, widened to pages where that makes it a direct one.
/// `at`: where the page that holds `begin` goes in the buffer.
Segment segment_for(const StoredChunk& chunk, std::uint64_t begin, std::uint64_t end, std::size_t at);

}  // namespace flagstone
