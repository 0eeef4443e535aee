#include "flagstone/storage/chunk/chunk_read.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/chunk/chunk_geometry.hpp"
#include "flagstone/storage/chunk/coalesce.hpp"
#include "flagstone/storage/chunk/zero_copy.hpp"
#include "flagstone/storage/file/crc32c.hpp"

namespace flagstone {
namespace {

/// Bytes between two ranges that are read rather than skipped: a request costs a disk as much as 8.5 KiB
/// (decision 64). Between packed chunks in slots are holes; HDF5's begin anywhere, behind small other things.
constexpr std::uint64_t most_gap = 8 * KiB, most_gap_elsewhere = 16 * KiB;

/// A whole packed chunk, which goes to staging: long ones travel directly with the pages around them, short ones
/// through the page cache, which reads ahead. `at`: in: a page of staging; out: where the chunk starts.
Segment segment_for_packed(const StoredChunk& chunk, std::size_t& at) {
  const std::uint64_t before = chunk.offset % page_bytes;
  if (before == 0 || chunk.bytes < most_joined_bytes) return segment_for(chunk, 0, chunk.bytes, at);
  Segment segment;
  segment.file = chunk.file;
  segment.offset = chunk.offset - before;
  segment.at = at;
  segment.row_bytes = align_up(before + chunk.bytes);
  segment.slack = segment.row_bytes > before + chunk.available ? segment.row_bytes - before - chunk.available : 0;
  at += before;
  return segment;
}

/// Staging that a packed chunk takes at most, wherever it lies in its file.
std::uint64_t staging_for(const StoredChunk& chunk) { return align_up(chunk.bytes + chunk.offset % page_bytes); }

/// What all pieces of one box are put in place with.
struct Target {
  ChunkLayout layout;
  Tile tile;                 // whose data are wherever the buffer is
  std::size_t unpacked = 0;  // of the memory for computing: one chunk, what unpacking takes is behind it
};

void put(const Target& target, const Piece& piece, std::byte* buffer, std::byte* staging, std::byte* work) {
  const ChunkLayout& layout = target.layout;
  Tile to = target.tile;
  to.data = buffer;
  const Tile part = subtile(to, piece.in_box);
  if (piece.bytes == 0) return fill(part, layout.fill.data());
  std::byte* chunk = staging + piece.staged - piece.skipped;
  if (piece.crc && crc32c(staging + piece.staged, piece.bytes) != *piece.crc) layout.mismatch(piece.chunk, *piece.crc);
  if (layout.decode) {
    layout.decode({staging + piece.staged, piece.bytes, piece.mask}, work, work + target.unpacked);
    chunk = work;
  }
  copy(subtile({chunk, layout.dtype, layout.chunks, layout.chunk_strides, 0}, piece.in_chunk), part);
}

/// What a box needs of a chunk: of a raw one the bytes around its elements, or all of it to be verified.
ByteRange needed_of(const ChunkLayout& layout, const Box& box, const Shape& chunk, const StoredChunk& stored) {
  const ByteRange all{0, stored.bytes};
  if (layout.decode || layout.verify) return all;
  ByteRange range;
  bool whole = true;
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    const Index at = chunk[d] * layout.chunks[d], length = std::min(layout.chunks[d], layout.shape[d] - at),
                begin = std::max<Index>(box.start[d] - at, 0), end = std::min(box.start[d] + box.shape[d] - at, length);
    whole = whole && begin == 0 && end == length;
    range.begin += static_cast<std::uint64_t>(begin * layout.chunk_strides[d]);
    range.end += static_cast<std::uint64_t>((end - 1) * layout.chunk_strides[d]);
  }
  range.end += size_of(layout.dtype);
  return whole ? all : range;
}
Wanted wanted_of(const ChunkLayout& layout, const StoredChunk& stored, const ByteRange& range) {
  const bool at_pages = !layout.decode && stored.offset % page_bytes == 0;
  return {stored.file,
          stored.offset + range.begin,
          stored.offset + range.end,
          stored.offset + stored.available,
          at_pages ? most_gap : most_gap_elsewhere,
          0};
}

/// Notes of a piece what is read of its chunk.
Wanted wanted_of(const ChunkLayout& layout, const Box& box, const StoredChunk& stored, Piece& piece) {
  const ByteRange range = needed_of(layout, box, piece.chunk, stored);
  piece.bytes = stored.bytes, piece.mask = stored.skipped, piece.skipped = range.begin;
  if (range.begin == 0 && range.end == stored.bytes) piece.crc = stored.crc;
  return wanted_of(layout, stored, range);
}

/// The same ranges in a request each.
std::vector<Segment> one_by_one(const std::vector<Wanted>& wanted, const std::vector<Piece>& pieces) {
  std::vector<Segment> segments;
  for (const Wanted& one : wanted) {
    std::vector<Wanted> alone{one};
    segments.push_back(join(alone, 0).front().segment);
    segments.back().at = pieces[one.piece].staged - (one.begin - segments.back().offset);
  }
  return segments;
}

/// Puts the joined requests of `wanted` behind `staging`; returns where it goes on.
std::size_t gather(std::vector<Wanted> wanted, std::vector<Piece>& pieces, Transfer& transfer, std::size_t staging) {
  for (Joined& joined : join(wanted, MiB)) {
    joined.segment.at = staging;
    for (std::size_t i = joined.first; i < joined.last; ++i)
      pieces[wanted[i].piece].staged = staging + (wanted[i].begin - joined.segment.offset);
    staging += joined.segment.row_bytes;
    transfer.segments.push_back(std::move(joined.segment));
  }
  return staging;
}

/// Whether a range is joined with others. Between chunks at pages nothing is read then: what moves is as plans count
/// it, which know no places.
bool travels_with_others(const StoredChunk& stored, Wanted& part) {
  if (!stored.file || part.end - part.begin >= most_joined_bytes) return false;
  if (stored.offset % page_bytes == 0) part.most_gap = 0;
  return true;
}

Transfer read_staged(const ChunkLayout& layout, const Box& box, Transfer transfer, const ChunkLayout::Locate& locate) {
  const std::vector<Shape> touched = layout.touched(box);
  std::vector<Piece> pieces;
  std::vector<Wanted> wanted;
  pieces.reserve(touched.size());
  std::size_t staging = 0;
  for (const Shape& chunk : touched) {
    Piece& piece = pieces.emplace_back(piece_of(layout, box, chunk));
    const StoredChunk stored = locate(chunk);
    if (stored.bytes == 0) continue;
    Wanted part = wanted_of(layout, box, stored, piece);
    if (travels_with_others(stored, part)) {
      part.piece = pieces.size() - 1;
      wanted.push_back(std::move(part));
      continue;
    }
    piece.staged = staging;
    if (layout.decode) {
      staging += staging_for(stored);
      transfer.segments.push_back(segment_for_packed(stored, piece.staged));
    } else {
      const std::uint64_t end = part.end - stored.offset;
      transfer.segments.push_back(segment_for(stored, piece.skipped, end, staging));
      piece.skipped = align_down(piece.skipped);
      staging += align_up(end) - piece.skipped;
    }
  }
  staging = gather(std::move(wanted), pieces, transfer, staging);
  Target target{layout, {nullptr, layout.dtype, box.shape, transfer.strides, 0}, align_up(layout.chunk_bytes)};
  if (layout.decode) transfer.work_bytes = target.unpacked + layout.decode_scratch;
  transfer.staging_bytes = staging + transfer.work_bytes;
  transfer.convert = [target = std::move(target), pieces = std::move(pieces)](std::byte* buffer, std::byte* staging,
                                                                              std::byte* work) {
    for (const Piece& piece : pieces) put(target, piece, buffer, staging, work);
  };
  return transfer;
}

/// What read_staged stages of raw chunks. Cost: of each its place, and no memory.
std::size_t staging_of_raw(const ChunkLayout& layout, const Box& box, const ChunkLayout::Locate& locate) {
  std::size_t staging = 0;
  std::vector<Wanted> wanted;
  layout.visit_touched(box, [&](const Shape& chunk) {
    const StoredChunk stored = locate(chunk);
    if (stored.bytes == 0) return;
    const ByteRange range = needed_of(layout, box, chunk, stored);
    Wanted part = wanted_of(layout, stored, range);
    if (travels_with_others(stored, part))
      wanted.push_back(std::move(part));
    else
      staging += align_up(range.end) - align_down(range.begin);
  });
  for (const Joined& joined : join(wanted, MiB)) staging += joined.segment.row_bytes;
  return staging;
}

/// A whole packed chunk: unpacked straight into the tile's buffer.
Transfer read_packed_chunk(const ChunkLayout& layout, Transfer transfer, const Shape& chunk,
                           const StoredChunk& stored) {
  std::size_t at = 0;
  transfer.segments.push_back(segment_for_packed(stored, at));
  transfer.work_bytes = layout.decode_scratch;
  transfer.staging_bytes = staging_for(stored) + transfer.work_bytes;
  transfer.convert = [decode = layout.decode, mismatch = layout.mismatch, chunk, crc = stored.crc, bytes = stored.bytes,
                      mask = stored.skipped, at](std::byte* buffer, std::byte* staging, std::byte* work) {
    if (crc && crc32c(staging + at, bytes) != *crc) mismatch(chunk, *crc);
    decode({staging + at, bytes, mask}, buffer, work);
  };
  return transfer;
}

/// One chunk of a transfer whose buffer holds it as it is stored.
struct Summed {
  Shape chunk;
  std::size_t at = 0;  // in the buffer
  std::uint32_t crc = 0;
};

/// Raw chunks that go where they belong as they are.
Transfer read_in_place(const ChunkLayout& layout, const Box& box, Geometry g, const ChunkLayout::Locate& locate) {
  Transfer transfer = std::move(g.transfer);
  std::vector<Box> absent;
  std::vector<Summed> known;
  for (const Shape& chunk : layout.touched(box)) {
    const StoredChunk stored = locate(chunk);
    const Piece piece = piece_of(layout, box, chunk);
    if (stored.bytes == 0) {
      absent.push_back(piece.in_box);
    } else if (g.placing == Placing::scatter) {
      const std::size_t at = position(layout, box, chunk, transfer.strides);
      transfer.segments.push_back(scattered(stored, g.rows, at));
      if (stored.crc) known.push_back({chunk, at, *stored.crc});
    } else if (layout.decode) {
      return read_packed_chunk(layout, std::move(transfer), chunk, stored);
    } else {
      ByteRange range{0, layout.chunk_bytes};
      if (g.placing == Placing::part) range = byte_range(piece.in_chunk, layout.chunk_strides, size_of(layout.dtype));
      transfer.segments.push_back(segment_for(stored, range.begin, range.end, 0));
      if (stored.crc && g.placing == Placing::chunk) known.push_back({chunk, 0, *stored.crc});
    }
  }
  if (!absent.empty() || !known.empty())
    transfer.convert = [fill = layout.fill, mismatch = layout.mismatch, absent = std::move(absent),
                        known = std::move(known), tile = Tile{nullptr, layout.dtype, box.shape, transfer.strides, 0},
                        rows = rows_of(layout, g),
                        origin = transfer.origin](std::byte* buffer, std::byte*, std::byte*) {
      for (const Summed& chunk : known)
        if (crc_of(buffer + chunk.at, rows) != chunk.crc) mismatch(chunk.chunk, chunk.crc);
      Tile to = tile;
      to.data = buffer + origin;
      for (const Box& box : absent) flagstone::fill(subtile(to, box), fill.data());
    };
  return transfer;
}

/// What follows when the chunks of one request are there; without its segment.
Transfer put_together(const std::shared_ptr<const Target>& target, std::vector<Piece> pieces,
                      std::vector<Wanted> ranges) {
  Transfer transfer;
  transfer.strides = target->tile.strides;
  if (target->layout.decode && !ranges.empty()) transfer.work_bytes = target->unpacked + target->layout.decode_scratch;
  transfer.staging_bytes = transfer.work_bytes;
  const auto there = std::make_shared<const std::vector<Piece>>(std::move(pieces));
  if (ranges.size() > 1) transfer.apart = [there, ranges = std::move(ranges)] { return one_by_one(ranges, *there); };
  transfer.convert = [target, there](std::byte* buffer, std::byte* staging, std::byte* work) {
    for (const Piece& piece : *there) put(*target, piece, buffer, staging, work);
  };
  return transfer;
}

/// A damaged index or a file that is no chunk must not decide how much memory is taken.
ChunkLayout::Locate bounded(const ChunkLayout& layout, const ChunkLayout::Locate& find) {
  return [&layout, &find](const Shape& chunk) {
    StoredChunk stored = find(chunk);
    if (layout.decode && stored.bytes > layout.most_packed())
      throw FormatError("read: " + (stored.file ? stored.file->path() : std::string("chunk")) + ": a chunk of " +
                        format_bytes(layout.chunk_bytes) + " takes " + format_bytes(stored.bytes) +
                        "; it is damaged, write or copy it again.");
    return stored;
  };
}

}  // namespace

Transfer read_chunks(const ChunkLayout& layout, const Box& box, const ChunkLayout::Locate& find) {
  check_box(layout.shape, box);
  Geometry g = geometry_of(layout, box);
  if (count(box.shape) == 0) return std::move(g.transfer);
  const ChunkLayout::Locate locate = bounded(layout, find);
  if (g.placing == Placing::staging) return read_staged(layout, box, std::move(g.transfer), locate);
  return read_in_place(layout, box, std::move(g), locate);
}

Transfer geometry_of_chunks(const ChunkLayout& layout, const Box& box, const ChunkLayout::Locate& find) {
  check_box(layout.shape, box);
  Geometry g = geometry_of(layout, box);
  if (layout.decode) return read_chunks(layout, box, find);
  if (g.placing == Placing::staging && count(box.shape) > 0)
    g.transfer.staging_bytes = staging_of_raw(layout, box, find);
  return std::move(g.transfer);
}

std::vector<PartRead> read_joined_chunks(const ChunkLayout& layout, const Box& box, const Tile& to,
                                         std::size_t most_bytes, const ChunkLayout::Locate& find) {
  check_box(layout.shape, box);
  const ChunkLayout::Locate locate = bounded(layout, find);
  std::vector<Piece> pieces, absent;
  std::vector<Wanted> wanted;
  for (const Shape& chunk : layout.touched(box)) {
    Piece piece = piece_of(layout, box, chunk);
    const StoredChunk stored = locate(chunk);
    if (stored.bytes == 0) {
      absent.push_back(std::move(piece));
      continue;
    }
    wanted.push_back(wanted_of(layout, box, stored, piece));
    wanted.back().piece = pieces.size();
    pieces.push_back(std::move(piece));
  }
  const auto target = std::make_shared<const Target>(
      Target{layout, {nullptr, layout.dtype, box.shape, to.strides, 0}, align_up(layout.chunk_bytes)});
  std::vector<PartRead> reads;
  if (!absent.empty()) reads.push_back({box, put_together(target, std::move(absent), {})});
  for (Joined& joined : join(wanted, most_bytes)) {
    if (joined.last - joined.first == 1) {
      const Piece& alone = pieces[wanted[joined.first].piece];
      const Box part = intersect(box, layout.chunk_box(alone.chunk));
      if (auto straight = read_straight(layout, part, subtile(to, alone.in_box), locate)) {
        reads.push_back({part, *std::move(straight)});
        continue;
      }
    }
    std::vector<Piece> there;
    std::vector<Wanted> ranges;
    for (std::size_t i = joined.first; i < joined.last; ++i) {
      Piece& piece = there.emplace_back(std::move(pieces[wanted[i].piece]));
      piece.staged = wanted[i].begin - joined.segment.offset;
      ranges.push_back(std::move(wanted[i]));
      ranges.back().piece = there.size() - 1;
    }
    Transfer transfer = put_together(target, std::move(there), std::move(ranges));
    transfer.staging_bytes += joined.segment.row_bytes;
    transfer.segments.push_back(std::move(joined.segment));
    reads.push_back({box, std::move(transfer)});
  }
  return reads;
}

}  // namespace flagstone
