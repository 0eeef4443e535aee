#pragma once
// How one box travels between files and memory.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "flagstone/base/shape.hpp"
#include "flagstone/storage/file/file.hpp"

namespace flagstone {

/// One contiguous range of a file, and where its bytes lie in the tile's buffer (or in the staging buffer).
/// rows > 1: row_bytes each, `pitch` bytes apart in memory, contiguous in the file.
struct Segment {
  std::shared_ptr<File> file;  // null in an array that is only planned
  std::uint64_t offset = 0;
  std::size_t at = 0;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t pitch = 0;
  bool direct = true;     // offset, lengths and memory are page-aligned: O_DIRECT
  std::size_t slack = 0;  // of a read: so many of the last bytes may lie beyond the end of the file (last page)
  std::size_t part = 0;   // of a write that settles: the chunk that it is of, and offset counts from its start

  std::size_t bytes() const { return row_bytes * rows; }
};

/// How one box travels. The geometry (buffer_bytes, origin, strides) of a box is the same for reading and writing.
struct Transfer {
  std::size_t buffer_bytes = 0;  // multiple of page_bytes: what the cache allocates and charges
  std::size_t origin = 0;        // bytes from the buffer's start to element (0, ..., 0)
  Shape strides;                 // bytes
  std::size_t tile_bytes = 0;    // what Tile::bytes says (exact length of an encoded chunk)
  std::vector<Segment> segments;
  std::size_t staging_bytes = 0;  // > 0: segments refer to a staging buffer of so many bytes
  std::size_t work_bytes = 0;     // its end: no segment lies there, convert uses it while it runs
  std::size_t list_bytes = 0;     // of ordinary memory for what is listed here of each chunk, and for its requests
  double flops = 0;               // that convert computes: of elements that are computed where they are loaded
  /// read: after the segments arrived; write: before they leave. Decodes, assembles, fills absent chunks.
  /// (tile buffer, staging buffer, work_bytes of memory). Runs on a worker; pure computation. May be empty: finish().
  std::function<void(std::byte*, std::byte*, std::byte*)> convert;
  /// Of a read: told how many bytes are there, counted over the segments in order, each time more are: what need not
  /// wait for the rest (checksums). (where the segments go, bytes). May be empty; convert follows all the same.
  std::function<void(std::byte*, std::size_t)> arriving = {};
  /// Of a read whose segments join several chunks, with what lies between: a segment for each of them, to the same
  /// places. For when a joined one cannot be read: what lies between does not matter then, and the error says which.
  std::function<std::vector<Segment>()> apart = {};
  /// write: after convert, on the same thread: takes room on the disk for what leaves, and drops from the segments what
  /// need not (chunks that are all fill value, the rest of a packed chunk's slot). May be empty.
  std::function<void(std::vector<Segment>&)> settle = {};

  std::uint64_t bytes() const;  // what is submitted to the ring
  /// What it takes beside the tile's buffer while it travels. Lists of a few chunks are part of what a run holds back.
  std::size_t beside_bytes() const;
  /// convert, where there is one, in a staging buffer of staging_bytes.
  void finish(std::byte* buffer, std::byte* staging) const;
};

/// A part of a box that is read into memory, and how: the transfer's buffer begins at the memory of `part`.
struct PartRead {
  Box part;
  Transfer transfer;
};

}  // namespace flagstone
