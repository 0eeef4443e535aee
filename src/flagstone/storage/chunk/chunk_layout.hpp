#pragma once
// Which chunks a box touches and how they travel: shared by arrays on disk and arrays that are only planned.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/codec/decode.hpp"

namespace flagstone {

/// Where one stored chunk is. `bytes` 0: absent (all fill value).
struct StoredChunk {
  std::shared_ptr<File> file;  // null in a planned array
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;                // as stored
  std::uint64_t available = 0;            // bytes from `offset` to the file's end (writing: to the slot's)
  std::uint32_t skipped = 0;              // EncodedChunk::skipped
  std::optional<std::uint32_t> crc = {};  // of the stored bytes, where it is known
};

/// A chunk that is about to be written. `bytes` 0: it is all fill value, and is stored by being absent.
struct NewChunk {
  Shape chunk;
  std::uint64_t bytes = 0;  // as stored
  std::uint32_t crc = 0;    // of them, where checksums are kept
};

/// The grid of an array's chunks and what a decoded chunk looks like.
struct ChunkLayout {
  using Locate = std::function<StoredChunk(const Shape& chunk)>;
  /// Unpacks a whole chunk; `scratch`: decode_scratch bytes. Throws FormatError.
  using Decode = std::function<void(const EncodedChunk& encoded, std::byte* decoded, std::byte* scratch)>;
  /// Packs a whole chunk into at most slot_bytes and returns how many; `scratch`: encode_scratch bytes.
  using Encode =
      std::function<std::size_t(std::span<const std::byte> decoded, std::span<std::byte> encoded, std::byte* scratch)>;
  /// Where a chunk goes, asked on the thread that packed it, before it leaves; takes room on the disk.
  using Place = std::function<StoredChunk(const NewChunk& chunk)>;
  /// Told the crc32c that a chunk should have, after it was read and did not match.
  using Sum = std::function<void(const Shape& chunk, std::uint32_t crc)>;

  ChunkLayout() = default;
  ChunkLayout(Shape array_shape, Shape chunk_shape, Dtype array_dtype);

  Shape shape, chunks, grid;  // grid: number of chunks in each dimension
  Dtype dtype = Dtype::float64;
  std::size_t chunk_bytes = 0;
  Shape chunk_strides;          // bytes; C order unless a transpose codec says otherwise
  std::vector<std::byte> fill;  // one element
  bool stores_fill = false;     // chunks that are all of it too: nobody knows what an absent one reads as
  Decode decode;                // empty: stored raw
  std::size_t decode_scratch = 0;
  Encode encode;  // empty: written raw
  std::size_t encode_scratch = 0;
  bool sums = false;    // checksums are kept of what is written
  bool verify = false;  // of a part of a chunk all is read, and verified
  Sum mismatch;         // throws unless the chunk was replaced meanwhile

  /// Takes order and steps from a chain; errors name `where`. Nothing to unpack: no decode.
  void decode_with(const CodecChain& chain, const std::string& where);
  /// The same, and packs what is written.
  void pack_with(const CodecChain& chain, const std::string& where);
  /// Longest stored chunk that is no damage, and what unpacking or packing one takes (0: chunks are raw).
  std::uint64_t most_packed() const;
  std::uint64_t unpack_bytes() const;
  std::uint64_t pack_bytes() const;
  /// Raw chunks take align_up(chunk_bytes); packed ones a page more, so that incompressible data fits.
  std::uint64_t slot_bytes() const;
  bool covers_whole_chunks(const Box& box) const;
  /// Whether chunks are short enough to travel together.
  bool short_chunks() const;
  std::size_t run_bytes(const Shape& box) const;
  /// Coordinates of all chunks that a box touches, C order.
  std::vector<Shape> touched(const Box& box) const;
  std::size_t touched_count(const Box& box) const;
  void visit_touched(const Box& box, const std::function<void(const Shape& chunk)>& visit) const;
  /// The part of the array that a chunk holds (clipped at the edge).
  Box chunk_box(const Shape& chunk) const;
};

}  // namespace flagstone
