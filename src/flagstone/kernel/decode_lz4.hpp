#pragma once
// The commonest blosc chunks, lz4 with or without byte shuffle, decoded into memory that the caller gives.
//
// libblosc 1 takes the memory for a block from malloc at every call. On worker threads those blocks, of 1 to 3 MiB and
// aligned, and small allocations in between leave holes that the next one does not fit (glibc before 2.38): 15 to 22
// MiB a worker were seen to stay resident, which no plan can know. See decision 38.
#include <cstddef>
#include <optional>
#include <span>

namespace flagstone::kernel {

/// A chunk in the format of c-blosc 1 (README_CHUNK_FORMAT.rst there): a header of 16 bytes, the blocks' offsets, and
/// blocks of one stream or of one stream for each byte of an element, each led by its length.
class Lz4Chunk {
 public:
  /// None: built without lz4, or another codec or filter. The header must have been validated.
  static std::optional<Lz4Chunk> of(std::span<const std::byte> encoded);

  std::size_t block_bytes() const { return block_; }
  std::size_t type_bytes() const { return type_; }
  /// Bytes [start, start + bytes) of the content, whole elements; `workspace` holds a block. False: damaged.
  bool decode(std::size_t start, std::size_t bytes, std::byte* to, std::byte* workspace) const;

 private:
  bool decode_block(std::size_t number, std::byte* to) const;

  std::span<const std::byte> encoded_;
  std::size_t type_ = 1, block_ = 0, content_ = 0;
  bool shuffled_ = false, split_ = false;
};

}  // namespace flagstone::kernel
