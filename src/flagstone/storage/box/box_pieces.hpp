#pragma once
// A box in pieces that travel one by one: parts of chunks, each of a bounded number of bytes where the store allows.
#include <optional>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// Walks over `box` in C order. A piece never crosses a chunk and is at most `cell` large.
class BoxPieces {
 public:
  BoxPieces(Box box, Shape chunks, Shape cell);
  std::optional<Box> next();

 private:
  Index end_of(std::size_t d) const;  // where the piece that starts at at_ ends
  Box box_;
  Shape chunks_, cell_, at_;
  bool finished_ = false;
};

/// Chunks, and where a chunk is large and can be read in part, slabs of it along the slowest axes in storage.
BoxPieces pieces_to_read(const Array& array, const Box& box, std::size_t staging);
/// Where several short chunks are worth one request: parts of neighbourhoods (ArrayStore) of at most so many chunks,
/// all of them, so to be clipped to `box`. None: chunk by chunk.
std::optional<BoxPieces> neighbourhoods(const Array& array, const Box& box, std::size_t most_chunks);
/// Parts of single chunks; slabs where `flat`.
BoxPieces pieces_to_write(const Array& array, const Box& box, std::size_t staging, bool flat);
/// True for flat files (.npy, raw), whose boxes can be written without regard to chunks.
bool takes_any_box(const Array& array);
/// The chunk that holds `part`, clipped at the array's edge.
Box chunk_around(const Array& array, const Box& part);

}  // namespace flagstone
