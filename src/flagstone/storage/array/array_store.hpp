#pragma once
// What a kind of storage implements.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "flagstone/base/shape.hpp"
#include "flagstone/storage/array/transfer.hpp"

namespace flagstone {

class Array;

/// What kinds of storage implement. Thread-safe: boxes of one array are read and written concurrently.
class ArrayStore {
 public:
  virtual ~ArrayStore() = default;
  virtual Transfer read(const Box& box) const = 0;
  /// How read(box) fills its buffer and what staging it takes, asked for every tile before it moves: where that does
  /// not depend on the places of chunks, without its segments.
  virtual Transfer geometry(const Box& box) const { return read(box); }
  /// How a box inside one chunk travels straight into `to`, which has its shape; the transfer's buffer begins at
  /// to.data, and its convert verifies and fills. None where the bytes do not lie there as they are stored.
  virtual std::optional<Transfer> read_straight(const Box&, const Tile& /*to*/) const { return std::nullopt; }
  /// Extents in which short chunks lie in one file, so that several are worth one request; empty: each is a file of its
  /// own, or chunks are long.
  virtual Shape neighbourhood() const { return {}; }
  /// How a box of chunks in one neighbourhood travels, put together straight into `to`: as many transfers as it takes
  /// with staging for at most `most_bytes` of the file, or for one chunk; their convert verifies and fills. Chunks that
  /// have no neighbours go as read_straight says, where it says something.
  virtual std::vector<PartRead> read_joined(const Box&, const Tile& /*to*/, std::size_t /*most_bytes*/) const {
    return {};
  }
  /// The box must cover whole chunks (clipped at the array's edge): Array::writable_in_place says which boxes do.
  virtual Transfer write(const Box& box) = 0;
  /// How whole chunks in one neighbourhood travel, taken straight from `from`, which is only read; staging for all of
  /// them. Only of stores that have neighbourhoods.
  virtual Transfer write_joined(const Box& box, const Tile& /*from*/) { return write(box); }
  /// What write(box) would move, for plans: makes and changes nothing (a store whose write() does overrides it), and
  /// its segments are never submitted. ShapeError and StorageError as write.
  virtual Transfer planned_write(const Box& box) { return write(box); }
  /// beside_bytes() of write(box), asked long before the write happens (ShapeError as write).
  virtual std::size_t write_staging(const Box& box) { return planned_write(box).beside_bytes(); }
  /// Called once the segments of a write have completed: marks chunks present.
  virtual void written(const Box&) {}
  /// Writes indexes, then fdatasync of what was written; after it, readers and peers see all data.
  virtual void flush() {}
  /// flush(), of an output that may be resumed: what is stored by now is final, and will not be written again.
  virtual void checkpoint() { flush(); }
  /// Of an output whose writer died after a checkpoint(): forgets what a crash left damaged, before anything is
  /// written.
  virtual void adopt() {}
  /// Of a new array that nobody sees yet: takes now, from the file system, all the space that its elements can need, so
  /// that no other job is promised it; flush() gives back what was not used. Nothing for what is packed, whose length
  /// nobody knows. False: the file system cannot reserve, so it was only looked whether there is enough. StorageError
  /// (ENOSPC, EDQUOT), which leaves nothing taken. Cost: milliseconds for each GiB, where the file system has extents.
  virtual bool reserve() { return true; }
  /// Whether all of a box was written; a store that cannot tell says yes.
  virtual bool stored(const Box&) const { return true; }
  /// Whether a box is known to hold nothing but zeros, without a look at what is stored: beside a triangle.
  virtual bool zeros(const Box&) const { return false; }
  /// Looks whether another handle or process has committed something since, and forgets what is old. Returns a number
  /// that changes with every commit; 0: nothing but this handle writes, or nothing can be said.
  virtual std::uint64_t look() { return 0; }
  /// Contiguous bytes of one request when a box of this shape is read (a layout's run length).
  virtual std::size_t run_bytes(const Shape& box) const = 0;
  /// What reading every stored chunk once moves; 0: no chunks, as many bytes as elements.
  virtual std::uint64_t pass_bytes() const { return 0; }
  /// Memory that unpacking one chunk takes beside the box that is read; 0: chunks are raw, or there are none.
  virtual std::uint64_t unpack_bytes() const { return 0; }
  /// The same for packing one.
  virtual std::uint64_t pack_bytes() const { return 0; }
  /// Only a shape, for plans: there are no elements to read.
  virtual bool imagined() const { return false; }
  /// Whether checksums of whole chunks are kept: a chunk that is read in parts goes unverified.
  virtual bool verified() const { return false; }
  /// Nothing to transfer: tiles are views of this memory (in-memory arrays); null for disk.
  virtual std::byte* memory() const { return nullptr; }
  virtual Shape memory_strides() const { return {}; }
  /// Arrays whose elements read() looks at, where they are not the store's own: who writes those changes what is read.
  virtual std::span<const Array> operands() const { return {}; }
  /// Whether elements are computed each time that they are loaded, never stored by who loads them often.
  virtual bool computed_anew() const { return false; }
};

}  // namespace flagstone
