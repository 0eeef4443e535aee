#pragma once
// The index of a shard: where each of its chunks lies.
#include <cstdint>
#include <limits>
#include <vector>

#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"

namespace flagstone {

struct ShardEntry {
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t offset = none, bytes = none;  // both `none`: absent

  bool absent() const { return offset == none && bytes == none; }
  bool operator==(const ShardEntry&) const = default;
};

/// Reads and checks an index, and those of the shards inside: checksums, and that every entry lies in its shard.
/// Entries of the innermost chunks, counted over the whole file in C order. FormatError names file and chunk. Cost: a
/// read for the file and for every shard inside it.
std::vector<ShardEntry> read_shard_index(const File& file, const ArrayMetadata& metadata);
/// Writes it (with its crc32c) as the last bytes of a file of `file_bytes`.
void write_shard_index(const File& file, const std::vector<ShardEntry>& entries, std::uint64_t file_bytes);
std::uint32_t crc_of(const std::vector<ShardEntry>& entries);

}  // namespace flagstone
