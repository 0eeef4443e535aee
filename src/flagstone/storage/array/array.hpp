#pragma once
// An N-d array on disk or in memory: a cheap handle that knows how any box of it travels between disk and memory.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flagstone/base/memory.hpp"
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
  /// convert, where there is one, in a staging buffer of staging_bytes.
  void finish(std::byte* buffer, std::byte* staging) const;
};

/// A part of a box that is read into memory, and how: the transfer's buffer begins at the memory of `part`.
struct PartRead {
  Box part;
  Transfer transfer;
};

/// What kinds of storage implement. Thread-safe: boxes of one array are read and written concurrently.
class ArrayStore {
 public:
  virtual ~ArrayStore() = default;
  virtual Transfer read(const Box& box) const = 0;
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
  /// staging_bytes of write(box), asked long before the write happens (ShapeError as write).
  virtual std::size_t write_staging(const Box& box) { return planned_write(box).staging_bytes; }
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
  /// Whether checksums of whole chunks are kept: a chunk that is read in parts goes unverified.
  virtual bool verified() const { return false; }
  /// Nothing to transfer: tiles are views of this memory (in-memory arrays); null for disk.
  virtual std::byte* memory() const { return nullptr; }
  virtual Shape memory_strides() const { return {}; }
};

/// shape, dtype, chunks and where the elements are. Copies share everything: as cheap as a pointer.
class Array {
 public:
  Array() = default;
  Array(Shape shape, Dtype dtype, Shape chunks, std::shared_ptr<ArrayStore> store, std::string path = {});

  explicit operator bool() const noexcept { return about().store != nullptr; }
  const Shape& shape() const noexcept { return about().shape; }
  Dtype dtype() const noexcept { return about().dtype; }
  /// The stored unit; the whole shape for flat files and memory.
  const Shape& chunks() const noexcept { return about().chunks; }
  std::size_t ndim() const noexcept { return shape().size(); }
  std::uint64_t nbytes() const noexcept { return static_cast<std::uint64_t>(count(shape())) * size_of(dtype()); }
  const std::string& path() const noexcept { return about().path; }  // empty: memory or planned
  ArrayStore& store() const noexcept { return *about().store; }
  const std::shared_ptr<ArrayStore>& shared_store() const noexcept { return about().store; }
  const void* id() const noexcept { return about().store.get(); }  // equal for handles of one array
  bool in_memory() const { return store().memory() != nullptr; }

 private:
  struct About {
    Shape shape;
    Dtype dtype = Dtype::float64;
    Shape chunks;
    std::shared_ptr<ArrayStore> store;
    std::string path;
  };
  static const About nothing;
  const About& about() const noexcept { return about_ ? *about_ : nothing; }
  std::shared_ptr<const About> about_;
};

/// A view of memory that somebody else owns (a NumPy operand); `owner` keeps it alive.
Array memory_array(std::byte* data, const Shape& shape, Dtype dtype, const Shape& strides_bytes,
                   std::shared_ptr<void> owner = {});
/// An array that exists only as metadata: what the planner gives to a routine as its output. Packed chunks count as
/// long as they can be (codec_text.hpp).
Array planned_array(const Shape& shape, Dtype dtype, const Shape& chunks, const std::string& codec = "raw",
                    bool column_major = false);
/// Tiles without a name that may spill: `box`-shaped slots in a nameless file of `directory`, made and reserved whole
/// at the first write (or by reserve()). Every access must use boxes of the grid `box` (clipped at the edge).
Array temporary_array(const Shape& shape, Dtype dtype, const Shape& box, const std::string& directory);
/// The same in a file at `path`, which stays: for what a dead process's successor goes on with. `tiles`: which of them,
/// in C order of the grid, the file there is known to hold; stored() tells which it holds. Where there is no such file,
/// or a shorter one, it is made anew and holds none.
Array kept_array(const Shape& shape, Dtype dtype, const Shape& box, const std::string& path,
                 const std::vector<std::uint8_t>& tiles);

/// Whether boxes are best read without regard to chunks: memory, flat files, one chunk that has no checksum. One that
/// has is read whole where a few buffers hold it (4 MiB), as everybody's chunks are.
bool reads_any_box(const Array& array);

/// Default chunk shape: the largest power-of-two near-square (over the last two dimensions) of at most 4 MiB.
Shape default_chunks(const Shape& shape, Dtype dtype);

class Crew;
class Ring;
/// Buffers that somebody keeps between transfers (fresh pages cost a third of what a fast disk takes to fill them).
struct BufferShelf {
  std::function<Buffer(std::size_t bytes)> take = {};  // whole pages; an empty one where there is none
  std::function<void(Buffer)> give = {};
};
struct BoxOptions {
  std::size_t staging = std::size_t{16} << 20;  // bytes that it may hold beyond the box, or one chunk
  BufferShelf shelf = {};                       // where they come from and go to
  Crew* crew = nullptr;   // unpacks and packs while the caller waits for the disk; none: the caller does
  std::size_t hands = 1;  // so many chunks at once; each takes memory for one chunk and its codec beside `staging`
  std::function<void()> pulse = {};  // called now and then on the calling thread; what it throws ends it
  std::chrono::milliseconds between_pulses{50};
};
/// A box and the memory for it: any strides.
struct BoxTile {
  Box box;
  Tile tile;
};
/// Reads boxes of `array`, of one moment, their requests on their way together. Whole raw chunks, and whole rows of
/// them, go straight into the memory where its rows begin at blocks of the disk (512 bytes); all else takes a copy
/// through `staging`. Blocks; its own ring traffic. StorageError, FormatError name file and chunk.
void read_boxes(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options = {});
void read_box(Ring& ring, const Array& array, const Box& box, const Tile& to, const BoxOptions& options = {});
/// Writes boxes; chunks covered in part are read, changed and written. No two boxes may touch one chunk.
void write_boxes(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options = {});
void write_box(Ring& ring, const Array& array, const Box& box, const Tile& from, const BoxOptions& options = {});
inline void read_box(Ring& ring, const Array& array, const Box& box, const Tile& to, std::size_t staging) {
  read_box(ring, array, box, to, BoxOptions{.staging = staging});
}
inline void write_box(Ring& ring, const Array& array, const Box& box, const Tile& from, std::size_t staging) {
  write_box(ring, array, box, from, BoxOptions{.staging = staging});
}

}  // namespace flagstone
