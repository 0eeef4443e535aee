#pragma once
// Chunks anywhere in one file, their places given: a chunked data set of HDF5, whose metadata another library read.
#include <string>
#include <vector>

#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/codec/decode.hpp"

namespace flagstone {

/// A grid of chunks of one shape; those at the edge are stored whole.
struct ChunkTable {
  struct Entry {
    std::uint64_t offset = 0;   // in the file
    std::uint32_t bytes = 0;    // as stored; 0: absent, all fill value
    std::uint32_t skipped = 0;  // EncodedChunk::skipped
  };
  Shape shape, chunks;
  Dtype dtype = Dtype::float64;
  CodecChain codec;
  std::vector<std::byte> fill;  // one element; empty: zero
  std::vector<Entry> entries;   // of all chunks, C order of the grid
};

/// For reading. FormatError when an entry lies outside the file or cannot hold a chunk. Errors say `name`. Memory: 16
/// bytes a chunk.
Array open_chunk_table(const std::string& file, ChunkTable table, const std::string& name);

}  // namespace flagstone
