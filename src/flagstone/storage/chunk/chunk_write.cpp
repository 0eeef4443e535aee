#include "flagstone/storage/chunk/chunk_write.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/requests.hpp"
#include "flagstone/storage/chunk/chunk_geometry.hpp"
#include "flagstone/storage/chunk/coalesce.hpp"
#include "flagstone/storage/codec/encode.hpp"
#include "flagstone/storage/codec/fill_value.hpp"
#include "flagstone/storage/file/crc32c.hpp"

namespace flagstone {
namespace {

/// What convert finds out about every chunk of a write, and settle tells the store.
using Leaving = std::shared_ptr<std::vector<NewChunk>>;

/// Puts the fill value outside `shape` in a buffer of extents `padded`: old memory never reaches the disk.
void pad(std::byte* buffer, const Shape& shape, const Shape& padded, const Shape& strides, Dtype dtype,
         const std::byte* element) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == padded[d]) continue;
    Tile part{buffer + shape[d] * strides[d], dtype, padded, strides, 0};
    for (std::size_t e = 0; e < d; ++e) part.shape[e] = shape[e];
    part.shape[d] = padded[d] - shape[d];
    fill(part, element);
  }
}

bool all_fill(const std::byte* data, const Rows& rows, const std::vector<std::byte>& element) {
  for (std::size_t row = 0; row < rows.rows; ++row)
    if (!is_filled({data + row * rows.pitch, rows.row_bytes}, element)) return false;
  return true;
}

/// Segments count from the start of their chunk's slot: here they get its place, and what need not leave is dropped.
void settle(const std::vector<NewChunk>& leaving, const ChunkLayout::Place& place, std::vector<Segment>& segments) {
  std::vector<StoredChunk> places;
  places.reserve(leaving.size());
  for (const NewChunk& chunk : leaving) places.push_back(place(chunk));
  std::erase_if(segments, [&](Segment& segment) {
    const std::uint64_t used = align_up(leaving[segment.part].bytes);
    if (segment.offset >= used) return true;
    if (segment.rows == 1) segment.row_bytes = std::min<std::uint64_t>(segment.row_bytes, used - segment.offset);
    segment.file = places[segment.part].file;
    segment.offset += places[segment.part].offset;
    return false;
  });
  join_neighbours(segments, most_request_bytes);
}

/// Chunks that leave from staging: packed, or assembled there because they lie in the buffer otherwise.
class Assembling {
 public:
  Assembling(const ChunkLayout& layout, const Box& box, const Geometry& g, const Leaving& leaving)
      : layout_(layout),
        leaving_(leaving),
        shape_(box.shape),
        in_place_(g.placing == Placing::chunk),
        tile_{nullptr, layout.dtype, box.shape, g.transfer.strides, 0} {
    for (const NewChunk& chunk : *leaving) pieces_.push_back(piece_of(layout, box, chunk.chunk));
  }

  /// Slots of all chunks, and what packing takes: one chunk as it is before it is packed, and the codec's memory.
  std::size_t staging_bytes() const { return pieces_.size() * layout_.slot_bytes() + work_bytes(); }
  std::size_t work_bytes() const { return aside_bytes() + layout_.encode_scratch; }

  void operator()(std::byte* buffer, std::byte* staging, std::byte* work) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      std::byte* slot = staging + i * layout_.slot_bytes();
      const std::byte* chunk = assembled(pieces_[i], buffer, layout_.encode ? work : slot);
      NewChunk& known = (*leaving_)[i];
      known.bytes = 0;
      if (!layout_.stores_fill && is_filled({chunk, layout_.chunk_bytes}, layout_.fill)) continue;
      known.bytes = layout_.chunk_bytes;
      if (layout_.encode)
        known.bytes = layout_.encode({chunk, layout_.chunk_bytes}, {slot, layout_.slot_bytes()}, work + aside_bytes());
      std::memset(slot + known.bytes, 0, align_up(known.bytes) - known.bytes);
      known.crc = layout_.sums ? crc32c(slot, known.bytes) : 0;
    }
  }

 private:
  std::size_t aside_bytes() const { return layout_.encode && !in_place_ ? align_up(layout_.chunk_bytes) : 0; }

  /// One chunk, padded: where it is in the buffer, or at `aside`.
  const std::byte* assembled(const Piece& piece, std::byte* buffer, std::byte* aside) const {
    if (in_place_ && layout_.encode) {
      pad(buffer, shape_, layout_.chunks, layout_.chunk_strides, layout_.dtype, layout_.fill.data());
      return buffer;
    }
    const Tile target{aside, layout_.dtype, layout_.chunks, layout_.chunk_strides, 0};
    if (piece.in_chunk.shape != layout_.chunks) fill(target, layout_.fill.data());
    Tile from = tile_;
    from.data = buffer;
    copy(subtile(from, piece.in_box), subtile(target, piece.in_chunk));
    return aside;
  }

  ChunkLayout layout_;
  Leaving leaving_;
  Shape shape_;
  bool in_place_;
  Tile tile_;
  std::vector<Piece> pieces_;
};

Leaving leaving_of(const ChunkLayout& layout, const Box& box) {
  const auto leaving = std::make_shared<std::vector<NewChunk>>();
  for (Shape& chunk : layout.touched(box)) leaving->push_back({std::move(chunk)});
  return leaving;
}

void write_from_staging(const ChunkLayout& layout, Assembling assembling, std::size_t chunks, Transfer& transfer) {
  const std::uint64_t slot = layout.slot_bytes();
  for (std::size_t i = 0; i < chunks; ++i) {
    transfer.segments.push_back(segment_for({nullptr, 0, slot, slot}, 0, slot, i * slot));
    transfer.segments.back().part = i;
  }
  transfer.staging_bytes = assembling.staging_bytes();
  transfer.work_bytes = assembling.work_bytes();
  transfer.convert = std::move(assembling);
}

/// Chunks that leave from the tile's buffer, where they lie as they are stored.
void write_from_buffer(const ChunkLayout& layout, const Box& box, const Geometry& g, const Leaving& leaving,
                       Transfer& transfer) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < leaving->size(); ++i) {
    const bool scatter = g.placing == Placing::scatter;
    const StoredChunk slot{nullptr, 0, layout.slot_bytes(), layout.slot_bytes()};
    at.push_back(scatter ? position(layout, box, (*leaving)[i].chunk, transfer.strides) : 0);
    transfer.segments.push_back(scatter ? scattered(slot, g.rows, at[i])
                                        : segment_for(slot, 0, layout.slot_bytes(), 0));
    transfer.segments.back().part = i;
  }
  const std::size_t used = static_cast<std::size_t>(count(g.padded)) * size_of(layout.dtype);
  transfer.convert = [shape = box.shape, padded = g.padded, strides = transfer.strides, used,
                      bytes = transfer.buffer_bytes, dtype = layout.dtype, element = layout.fill, sums = layout.sums,
                      stores_fill = layout.stores_fill, chunk_bytes = layout.chunk_bytes, leaving, at = std::move(at),
                      rows = rows_of(layout, g)](std::byte* buffer, std::byte*, std::byte*) {
    if (padded != shape) pad(buffer, shape, padded, strides, dtype, element.data());
    std::memset(buffer + used, 0, bytes - used);
    for (std::size_t i = 0; i < at.size(); ++i) {
      const bool filled = !stores_fill && all_fill(buffer + at[i], rows, element);
      (*leaving)[i].bytes = filled ? 0 : chunk_bytes;
      (*leaving)[i].crc = filled || !sums ? 0 : crc_of(buffer + at[i], rows);
    }
  };
}

}  // namespace

namespace {

void check_whole_chunks(const ChunkLayout& layout, const Box& box) {
  check_box(layout.shape, box);
  if (count(box.shape) > 0 && !layout.covers_whole_chunks(box))
    throw ShapeError("write: the box " + to_string(box.shape) + " at " + to_string(box.start) + " covers chunks of " +
                     to_string(layout.chunks) + " in part; write whole chunks.");
}

}  // namespace

std::size_t staging_of_write(const ChunkLayout& layout, const Box& box) {
  check_whole_chunks(layout, box);
  if (!layout.encode)
    if (const Geometry g = geometry_of(layout, box); g.placing != Placing::staging) return g.transfer.beside_bytes();
  return write_chunks(layout, box).beside_bytes();
}

Transfer write_chunks(const ChunkLayout& layout, const Box& box, const ChunkLayout::Place& place) {
  check_whole_chunks(layout, box);
  Geometry g = geometry_of(layout, box);
  Transfer transfer = g.transfer;
  if (count(box.shape) == 0) return transfer;
  const Leaving leaving = leaving_of(layout, box);
  if (layout.encode || g.placing == Placing::staging)
    write_from_staging(layout, Assembling(layout, box, g, leaving), leaving->size(), transfer);
  else
    write_from_buffer(layout, box, g, leaving, transfer);
  if (place) transfer.settle = [leaving, place](std::vector<Segment>& segments) { settle(*leaving, place, segments); };
  return transfer;
}

Transfer write_joined_chunks(const ChunkLayout& layout, const Box& box, const Tile& from,
                             const ChunkLayout::Place& place) {
  Geometry g;
  g.transfer.strides = from.strides;
  Transfer transfer = g.transfer;
  const Leaving leaving = leaving_of(layout, box);
  write_from_staging(layout, Assembling(layout, box, g, leaving), leaving->size(), transfer);
  transfer.settle = [leaving, place](std::vector<Segment>& segments) { settle(*leaving, place, segments); };
  return transfer;
}

}  // namespace flagstone
