#pragma once
// What zarr.json (or Zarr v2's .zarray) says of an array, checked, and how ours is written.
#include <cstddef>
#include <string>
#include <vector>

#include "flagstone/base/shape.hpp"
#include "flagstone/storage/codec/codec.hpp"

namespace flagstone {

/// One level of shards: the index of each.
struct ShardLevel {
  Shape grid;                      // entries, in the order in which they are counted
  std::vector<std::size_t> order;  // dimension d of the grid is dimension order[d] of the array
  bool index_at_end = true;
  bool big_endian = false;
  std::size_t checksums = 1;                  // crc32c, each of all before it
  std::vector<std::size_t> index_order = {};  // of a transpose of the index, an array of grid x 2; empty: none

  bool as_written_here() const;
};

struct ArrayMetadata {
  int version = 3;  // of Zarr
  Shape shape;
  Dtype dtype = Dtype::float64;
  Shape chunks;  // the stored unit
  Shape shards;  // extents of one file; equal to chunks where it is not sharded
  bool sharded = true;
  std::vector<ShardLevel> foreign_levels;  // outermost first; empty: one, as it is written here
  CodecChain codec;
  std::vector<std::byte> fill;  // one element
  bool fill_known = true;       // false: v2's null, which other programs read as they like
  bool default_keys = true;     // "c/0/1", else Zarr v2's "0.1"
  char separator = '/';
  std::string attributes = "{}";             // JSON object text
  std::vector<std::string> dimension_names;  // "": one without a name

  /// Path of a shard (or unsharded chunk) below the array's directory.
  std::string key(const Shape& shard) const;
  /// Chunks in one shard: the entries of its index.
  Index entries() const;
  /// The chunk (of the array's grid) that an entry of a shard's index names.
  Shape chunk_of(const Shape& shard, std::size_t entry) const;
  /// Bytes of the index at the shard's end, as it is written here.
  std::uint64_t index_bytes() const;
};

/// FormatError names `file` and what is not as it must be.
ArrayMetadata parse_array_metadata(const std::string& text, const std::string& file);
/// The same for the .zarray of Zarr v2; its attributes lie in another file and are not looked at.
ArrayMetadata parse_array_metadata_v2(const std::string& text, const std::string& file);
/// Takes what .zattrs says into `metadata`; xarray's _ARRAY_DIMENSIONS become the names that v3 has a place for.
void take_attributes_v2(const std::string& text, const std::string& file, ArrayMetadata& metadata);
std::string to_json(const ArrayMetadata& metadata);
/// Shards of about 1 GiB, fewer than 4096 chunks each, split evenly so that edge shards waste little.
Shape default_shards(const Shape& shape, const Shape& chunks, std::uint64_t slot_bytes);

}  // namespace flagstone
