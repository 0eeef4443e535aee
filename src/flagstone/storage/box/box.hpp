#pragma once
// Boxes read and written without a runtime, in bounded memory.
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>

#include "flagstone/base/memory.hpp"
#include "flagstone/storage/array/array.hpp"

namespace flagstone {

class ThreadPool;
class Ring;
/// Buffers that somebody keeps between transfers (fresh pages cost a third of what a fast disk takes to fill them).
struct BufferShelf {
  std::function<Buffer(std::size_t bytes)> take = {};  // whole pages; an empty one where there is none
  std::function<void(Buffer)> give = {};
};
struct BoxOptions {
  std::size_t staging = std::size_t{16} << 20;  // bytes that it may hold beyond the box, or one chunk
  BufferShelf shelf = {};                       // where they come from and go to
  ThreadPool* pool = nullptr;  // unpacks and packs while the caller waits for the disk; none: the caller does
  std::size_t hands = 1;       // so many chunks at once; each takes memory for one chunk and its codec beside `staging`
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
