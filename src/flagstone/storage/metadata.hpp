#pragma once
// zarr.json of an array: what it says, checked, and how ours is written.
#include <cstddef>
#include <string>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone {

/// How the bytes of one chunk come from its elements.
struct CodecChain {
  std::vector<std::size_t> order;  // of a transpose codec; empty: C order
  bool big_endian = false;
  bool blosc = false;
  bool crc32c = false;  // four bytes behind the chunk

  bool raw() const { return !big_endian && !blosc && !crc32c; }
};

struct ArrayMetadata {
  Shape shape;
  Dtype dtype = Dtype::float64;
  Shape chunks;  // the stored unit
  Shape shards;  // extents of one file; equal to chunks where it is not sharded
  bool sharded = true;
  bool index_at_end = true;
  bool index_checksum = true;
  CodecChain codec;
  std::vector<std::byte> fill;  // one element
  bool default_keys = true;     // "c/0/1", else Zarr v2's "0.1"
  char separator = '/';
  std::string attributes = "{}";  // JSON object text
  std::vector<std::string> dimension_names;

  /// Path of a shard (or unsharded chunk) below the array's directory.
  std::string key(const Shape& shard) const;
  /// Chunks in one shard: the entries of its index.
  Index entries() const;
  /// Bytes of the index at the shard's end (or start).
  std::uint64_t index_bytes() const;
};

/// The text of a small file. StorageError (ENOENT among them), FormatError where it is larger than `most` bytes.
std::string read_text(const std::string& path, std::size_t most = 256u << 20);
/// Writes and fsyncs a small file; an existing one is replaced by rename.
void write_text(const std::string& path, const std::string& text);

/// FormatError names `file` and what is not as it must be.
ArrayMetadata parse_array_metadata(const std::string& text, const std::string& file);
std::string to_json(const ArrayMetadata& metadata);
/// Shards of about 1 GiB, fewer than 4096 chunks each, split evenly so that edge shards waste little.
Shape default_shards(const Shape& shape, const Shape& chunks, std::uint64_t slot_bytes);

}  // namespace flagstone
