#include "flagstone/storage/shard_layout.hpp"

#include <algorithm>
#include <optional>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/chunk_geometry.hpp"
#include "flagstone/storage/crc32c.hpp"

namespace flagstone {
namespace {

/// The same for a whole packed chunk, which goes to staging: long ones travel directly with the pages around them,
/// short ones through the page cache, which reads ahead. `at`: in: a page of staging; out: where the chunk starts.
Segment segment_for_packed(const StoredChunk& chunk, std::size_t& at) {
  constexpr std::uint64_t least_direct = 128 * KiB;
  const std::uint64_t before = chunk.offset % page_bytes;
  if (before == 0 || chunk.bytes < least_direct) return segment_for(chunk, 0, chunk.bytes, at);
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

/// One chunk of a transfer whose buffer holds it as it is stored.
struct Summed {
  Shape chunk;
  std::size_t at = 0;  // in the buffer
  std::uint32_t crc = 0;
};

/// Bytes [begin, end) of a stored chunk, for one piece.
struct Wanted {
  StoredChunk stored;
  std::uint64_t begin = 0, end = 0;
  Piece* piece = nullptr;

  std::uint64_t first() const { return stored.offset + begin; }
  std::uint64_t last() const { return stored.offset + end; }
  /// Short and anywhere in its file: such chunks (HDF5's) travel better together.
  bool small() const { return stored.file && stored.offset % page_bytes != 0 && end - begin < 128 * KiB; }
};

/// Small ranges of one file that lie close to each other, as one direct request with the pages around them.
/// Returns where staging goes on.
std::size_t gather(std::vector<Wanted> wanted, Transfer& transfer, std::size_t staging) {
  constexpr std::uint64_t most_gap = 16 * KiB, most_group = MiB;
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return a.stored.file != b.stored.file ? a.stored.file < b.stored.file : a.first() < b.first();
  });
  for (std::size_t i = 0, end = 0; i < wanted.size(); i = end) {
    const std::uint64_t start = align_down(wanted[i].first());
    std::uint64_t last = wanted[i].last();
    for (end = i + 1; end < wanted.size(); ++end) {
      const Wanted& next = wanted[end];
      const std::uint64_t longer = std::max(last, next.last());
      if (next.stored.file != wanted[i].stored.file || next.first() > last + most_gap || longer - start > most_group)
        break;
      last = longer;
    }
    Segment segment;
    segment.file = wanted[i].stored.file;
    segment.offset = start;
    segment.at = staging;
    segment.row_bytes = align_up(last) - start;
    const std::uint64_t file_end = wanted[i].stored.offset + wanted[i].stored.available;
    segment.slack = align_up(last) > file_end ? align_up(last) - file_end : 0;
    for (std::size_t k = i; k < end; ++k) {
      wanted[k].piece->staged = staging + (wanted[k].first() - start);
      wanted[k].piece->skipped = wanted[k].begin;
    }
    staging += segment.row_bytes;
    transfer.segments.push_back(std::move(segment));
  }
  return staging;
}

void fill_absent(const std::vector<std::byte>& fill, const Tile& tile, const std::vector<Box>& absent) {
  for (const Box& box : absent) flagstone::fill(subtile(tile, box), fill.data());
}

Transfer read_staged(const ChunkLayout& layout, const Box& box, Transfer transfer, const ChunkLayout::Locate& locate) {
  const std::size_t item = size_of(layout.dtype);
  const std::vector<Shape> touched = layout.touched(box);
  std::vector<Piece> pieces;
  std::vector<Wanted> wanted;
  pieces.reserve(touched.size());
  std::size_t staging = 0;
  for (const Shape& chunk : touched) {
    Piece& piece = pieces.emplace_back(piece_of(layout, box, chunk));
    const StoredChunk stored = locate(chunk);
    piece.bytes = stored.bytes;
    piece.mask = stored.skipped;
    if (stored.bytes > 0 && layout.decode) {
      piece.crc = stored.crc;
      if (const Wanted all{stored, 0, stored.bytes, &piece}; all.small()) {
        wanted.push_back(all);
        continue;
      }
      piece.staged = staging;
      staging += staging_for(stored);
      transfer.segments.push_back(segment_for_packed(stored, piece.staged));
    } else if (stored.bytes > 0) {
      ByteRange range = byte_range(piece.in_chunk, layout.chunk_strides, item);
      if (layout.verify || piece.in_chunk.shape == layout.chunk_box(chunk).shape)
        range = {0, layout.chunk_bytes};  // to be verified
      if (range.begin == 0 && range.end == layout.chunk_bytes) piece.crc = stored.crc;
      if (const Wanted part{stored, range.begin, range.end, &piece}; part.small()) {
        wanted.push_back(part);
        continue;
      }
      piece.skipped = align_down(range.begin);
      piece.staged = staging;
      transfer.segments.push_back(segment_for(stored, range.begin, range.end, staging));
      staging += align_up(range.end) - piece.skipped;
    }
  }
  staging = gather(std::move(wanted), transfer, staging);
  const std::size_t unpacked = align_up(layout.chunk_bytes);  // one decoded chunk, then what decoding needs
  if (layout.decode) transfer.work_bytes = unpacked + layout.decode_scratch;
  transfer.staging_bytes = staging + transfer.work_bytes;
  const Tile tile{nullptr, layout.dtype, box.shape, transfer.strides, 0};
  transfer.convert = [layout, pieces = std::move(pieces), tile, unpacked](std::byte* buffer, std::byte* staging,
                                                                          std::byte* work) {
    Tile to = tile;
    to.data = buffer;
    for (const Piece& piece : pieces) {
      const Tile part = subtile(to, piece.in_box);
      if (piece.bytes == 0) {
        flagstone::fill(part, layout.fill.data());
        continue;
      }
      std::byte* chunk = staging + piece.staged - piece.skipped;
      if (piece.crc && crc32c(staging + piece.staged, piece.bytes) != *piece.crc)
        layout.mismatch(piece.chunk, *piece.crc);
      if (layout.decode) {
        layout.decode({staging + piece.staged, piece.bytes, piece.mask}, work, work + unpacked);
        chunk = work;
      }
      copy(subtile({chunk, layout.dtype, layout.chunks, layout.chunk_strides, 0}, piece.in_chunk), part);
    }
  };
  return transfer;
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

}  // namespace

void check_box(const Shape& shape, const Box& box) {
  bool inside = box.start.size() == shape.size() && box.shape.size() == shape.size();
  for (std::size_t d = 0; inside && d < shape.size(); ++d)
    inside = box.start[d] >= 0 && box.shape[d] >= 0 && box.start[d] <= shape[d] - box.shape[d];
  if (!inside)
    throw ShapeError("box: " + to_string(box.shape) + " at " + to_string(box.start) + " does not lie in an array of " +
                     to_string(shape) + "; clip it to the array.");
}

ChunkLayout::ChunkLayout(Shape array_shape, Shape chunk_shape, Dtype array_dtype)
    : shape(std::move(array_shape)),
      chunks(std::move(chunk_shape)),
      grid(grid_of(shape, chunks)),
      dtype(array_dtype),
      chunk_bytes(static_cast<std::size_t>(count(chunks)) * size_of(dtype)),
      chunk_strides(c_strides(chunks, size_of(dtype))),
      fill(size_of(dtype)) {}

void ChunkLayout::decode_with(const CodecChain& chain, const std::string& where) {
  const std::size_t n = chunks.size(), item = size_of(dtype);
  if (chain.order.size() == n) {
    Shape stored(n);
    for (std::size_t i = 0; i < n; ++i) stored[i] = chunks[chain.order[i]];
    const Shape strides = c_strides(stored, item);
    for (std::size_t i = 0; i < n; ++i) chunk_strides[chain.order[i]] = strides[i];
  }
  if (chain.raw()) return;
  decode_scratch = decode_scratch_bytes(chain, chunk_bytes);
  decode = [chain, dtype = dtype, bytes = chunk_bytes, where](const EncodedChunk& encoded, std::byte* decoded,
                                                              std::byte* scratch) {
    decode_chunk(chain, dtype, encoded, {decoded, bytes}, scratch, where);
  };
}

std::uint64_t ChunkLayout::most_packed() const { return chunk_bytes + chunk_bytes / 16 + 64 * KiB; }

std::uint64_t ChunkLayout::unpack_bytes() const {
  return decode ? align_up(most_packed()) + page_bytes + align_up(chunk_bytes) + decode_scratch : 0;
}

std::uint64_t ChunkLayout::pack_bytes() const {
  return encode ? slot_bytes() + align_up(chunk_bytes) + encode_scratch : 0;
}

std::uint64_t ChunkLayout::slot_bytes() const { return align_up(chunk_bytes + (encode || decode ? page_bytes : 0)); }

bool ChunkLayout::covers_whole_chunks(const Box& box) const {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Index end = box.start[d] + box.shape[d];
    if (box.start[d] % chunks[d] != 0 || (end % chunks[d] != 0 && end != shape[d])) return false;
  }
  return true;
}

std::vector<Shape> ChunkLayout::touched(const Box& box) const {
  if (count(box.shape) == 0) return {};
  Shape first = box.start, end = box.start;
  for (std::size_t d = 0; d < first.size(); ++d) {
    first[d] /= chunks[d];
    end[d] = ceil_div(box.start[d] + box.shape[d], chunks[d]);
  }
  std::vector<Shape> all;
  Shape at = first;
  do all.push_back(at);
  while (advance(at, first, end));
  return all;
}

Box ChunkLayout::chunk_box(const Shape& chunk) const {
  Box box{chunk, chunks};
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    box.start[d] *= chunks[d];
    box.shape[d] = std::min(chunks[d], shape[d] - box.start[d]);
  }
  return box;
}

Transfer ChunkLayout::read(const Box& box, const Locate& find) const {
  check_box(shape, box);
  // A damaged index or a file that is no chunk must not decide how much memory is taken.
  const Locate locate = [&](const Shape& chunk) {
    StoredChunk stored = find(chunk);
    if (decode && stored.bytes > most_packed())
      throw FormatError("read: " + (stored.file ? stored.file->path() : std::string("chunk")) + ": a chunk of " +
                        format_bytes(chunk_bytes) + " takes " + format_bytes(stored.bytes) +
                        "; it is damaged, write or copy it again.");
    return stored;
  };
  Geometry g = geometry_of(*this, box);
  Transfer transfer = std::move(g.transfer);
  if (count(box.shape) == 0) return transfer;
  if (g.placing == Placing::staging) return read_staged(*this, box, std::move(transfer), locate);

  const std::size_t item = size_of(dtype);
  std::vector<Box> absent;
  std::vector<Summed> known;
  for (const Shape& chunk : touched(box)) {
    const StoredChunk stored = locate(chunk);
    const Piece piece = piece_of(*this, box, chunk);
    if (stored.bytes == 0) {
      absent.push_back(piece.in_box);
    } else if (g.placing == Placing::scatter) {
      const std::size_t at = position(*this, box, chunk, transfer.strides);
      transfer.segments.push_back(scattered(stored, g.rows, at));
      if (stored.crc) known.push_back({chunk, at, *stored.crc});
    } else if (decode) {
      return read_packed_chunk(*this, std::move(transfer), chunk, stored);
    } else {
      ByteRange range{0, chunk_bytes};
      if (g.placing == Placing::part) range = byte_range(piece.in_chunk, chunk_strides, item);
      transfer.segments.push_back(segment_for(stored, range.begin, range.end, 0));
      if (stored.crc && g.placing == Placing::chunk) known.push_back({chunk, 0, *stored.crc});
    }
  }
  if (!absent.empty() || !known.empty())
    transfer.convert = [fill = fill, mismatch = mismatch, absent = std::move(absent), known = std::move(known),
                        tile = Tile{nullptr, dtype, box.shape, transfer.strides, 0}, rows = rows_of(*this, g),
                        origin = transfer.origin](std::byte* buffer, std::byte*, std::byte*) {
      for (const Summed& chunk : known)
        if (crc_of(buffer + chunk.at, rows) != chunk.crc) mismatch(chunk.chunk, chunk.crc);
      Tile to = tile;
      to.data = buffer + origin;
      fill_absent(fill, to, absent);
    };
  return transfer;
}

std::size_t ChunkLayout::run_bytes(const Shape& box) const {
  const std::size_t item = size_of(dtype);
  if (decode) return chunk_bytes;
  Box part{Shape(box.size(), 0), box};
  for (std::size_t d = 0; d < box.size(); ++d)
    part.shape[d] = std::max<Index>(1, std::min(box[d], std::min(chunks[d], shape[d])));
  return byte_range(part, chunk_strides, item).end;
}

}  // namespace flagstone
