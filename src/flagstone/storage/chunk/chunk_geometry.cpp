#include "flagstone/storage/chunk/chunk_geometry.hpp"

#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/file/crc32c.hpp"

namespace flagstone {
namespace {

/// None if it takes more levels.
std::optional<Rows> as_rows(const Shape& chunk, const Shape& strides, std::size_t item) {
  Rows rows{item, 1, 0};
  std::size_t d = chunk.size();
  while (d > 0 && (chunk[d - 1] == 1 || static_cast<std::size_t>(strides[d - 1]) == rows.row_bytes))
    rows.row_bytes *= static_cast<std::size_t>(chunk[--d]);
  for (; d > 0; --d) {
    if (chunk[d - 1] == 1) continue;
    if (rows.rows > 1) return std::nullopt;
    rows.rows = static_cast<std::size_t>(chunk[d - 1]);
    rows.pitch = static_cast<std::size_t>(strides[d - 1]);
  }
  return rows;
}

Shape padded_shape(const Box& box, const Shape& chunks) {
  Shape padded = box.shape;
  for (std::size_t d = 0; d < padded.size(); ++d) padded[d] = ceil_div(padded[d], chunks[d]) * chunks[d];
  return padded;
}

}  // namespace

ByteRange byte_range(const Box& part, const Shape& strides, std::size_t item) {
  ByteRange range;
  for (std::size_t d = 0; d < part.start.size(); ++d) {
    range.begin += static_cast<std::uint64_t>(part.start[d] * strides[d]);
    range.end += static_cast<std::uint64_t>((part.start[d] + part.shape[d] - 1) * strides[d]);
  }
  range.end += item;
  return range;
}

namespace {

Geometry placed(const ChunkLayout& layout, const Box& box) {
  const std::size_t item = size_of(layout.dtype);
  const std::size_t content = static_cast<std::size_t>(count(box.shape)) * item;
  Geometry g;
  g.transfer.tile_bytes = content;
  g.transfer.strides = c_strides(box.shape, item);
  g.transfer.buffer_bytes = align_up(std::max<std::size_t>(content, 1));
  if (content == 0) return g;
  g.padded = padded_shape(box, layout.chunks);
  if (layout.covers_whole_chunks(box)) {
    if (g.padded == layout.chunks) {
      g.placing = Placing::chunk;
      g.transfer.strides = layout.chunk_strides;
      g.transfer.buffer_bytes = align_up(layout.chunk_bytes);
      return g;
    }
    const Shape strides = c_strides(g.padded, item);
    const auto rows = as_rows(layout.chunks, strides, item);
    const bool raw = !layout.decode && layout.chunk_strides == c_strides(layout.chunks, item);
    const bool contiguous = rows && rows->rows == 1;
    if (raw && rows && layout.chunk_bytes % page_bytes == 0 && (contiguous || rows->row_bytes % 512 == 0)) {
      g.placing = Placing::scatter;
      g.rows = *rows;
      g.transfer.strides = strides;
      g.transfer.buffer_bytes = align_up(static_cast<std::size_t>(count(g.padded)) * item);
    }
    return g;
  }
  if (layout.decode || layout.verify) return g;
  Box part = box;
  for (std::size_t d = 0; d < part.start.size(); ++d) {
    part.start[d] %= layout.chunks[d];
    if (part.start[d] + part.shape[d] > layout.chunks[d]) return g;
  }
  const ByteRange range = byte_range(part, layout.chunk_strides, item);
  const std::uint64_t down = align_down(range.begin), pages = align_up(range.end) - down;
  if (pages > 2 * g.transfer.buffer_bytes) return g;  // a narrow column: cheaper to hold only what was asked for
  g.placing = Placing::part;
  g.transfer.buffer_bytes = pages;
  g.transfer.origin = range.begin - down;
  g.transfer.strides = layout.chunk_strides;
  return g;
}

}  // namespace

Geometry geometry_of(const ChunkLayout& layout, const Box& box) {
  Geometry g = placed(layout, box);
  const bool assembled = g.placing == Placing::staging || layout.decode || layout.encode;
  g.transfer.list_bytes = layout.touched_count(box) * (assembled ? listed_assembled : listed_in_place);
  return g;
}

Piece piece_of(const ChunkLayout& layout, const Box& box, const Shape& chunk) {
  const Box common = intersect(box, layout.chunk_box(chunk));
  Piece piece{common, common, 0, 0, 0, 0, chunk, {}};
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    piece.in_box.start[d] -= box.start[d];
    piece.in_chunk.start[d] -= chunk[d] * layout.chunks[d];
  }
  return piece;
}

Rows rows_of(const ChunkLayout& layout, const Geometry& g) {
  return g.placing == Placing::scatter ? g.rows : Rows{layout.chunk_bytes, 1, 0};
}

std::size_t position(const ChunkLayout& layout, const Box& box, const Shape& chunk, const Shape& strides) {
  std::size_t at = 0;
  for (std::size_t d = 0; d < chunk.size(); ++d)
    at += static_cast<std::size_t>((chunk[d] * layout.chunks[d] - box.start[d]) * strides[d]);
  return at;
}

std::uint32_t crc_of(const std::byte* data, const Rows& rows) {
  std::uint32_t crc = 0;
  for (std::size_t row = 0; row < rows.rows; ++row) crc = crc32c(data + row * rows.pitch, rows.row_bytes, crc);
  return crc;
}

Segment scattered(const StoredChunk& stored, const Rows& rows, std::size_t at) {
  Segment segment;
  segment.file = stored.file;
  segment.offset = stored.offset;
  segment.at = at;
  segment.row_bytes = rows.row_bytes;
  segment.rows = rows.rows;
  segment.pitch = rows.pitch;
  segment.direct = stored.offset % page_bytes == 0;
  return segment;
}

Segment segment_for(const StoredChunk& chunk, std::uint64_t begin, std::uint64_t end, std::size_t at) {
  const std::uint64_t down = align_down(begin), up = align_up(end);
  Segment segment;
  segment.file = chunk.file;
  if (chunk.offset % page_bytes == 0) {
    segment.offset = chunk.offset + down;
    segment.at = at;
    segment.row_bytes = up - down;
    segment.slack = up > chunk.available ? up - chunk.available : 0;
  } else {
    segment.offset = chunk.offset + begin;
    segment.at = at + (begin - down);
    segment.row_bytes = end - begin;
    segment.direct = false;
  }
  return segment;
}

}  // namespace flagstone
