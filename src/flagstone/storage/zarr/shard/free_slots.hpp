#pragma once
// Slots of a shard that no chunk lies in: where updates go, and what is given back to the file system.
#include <cstdint>
#include <vector>

#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/shard/shard_index.hpp"

namespace flagstone {

/// A set of slots, a bit each: every shard that is written to has two of them, and an array may have millions of
/// chunks.
class Slots {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFFu;

  bool empty() const { return number_ == 0; }
  bool contains(std::uint32_t slot) const;
  void insert(std::uint32_t slot);
  void erase(std::uint32_t slot);
  /// The first slot at or behind `from`, or none. Cost: a word for every 64 slots in between.
  std::uint32_t next(std::uint32_t from = 0) const;

 private:
  std::vector<std::uint64_t> words_;
  std::size_t number_ = 0;
};

/// Whether a file has the layout that is written here: whole pages, every chunk in a slot of its own.
bool lie_in_slots(const std::vector<ShardEntry>& entries, std::uint64_t file_bytes, std::uint64_t slot_bytes);
/// Slots before the index that an index does not name.
Slots free_slots(const std::vector<ShardEntry>& entries, std::uint64_t file_bytes, std::uint64_t index_bytes,
                 std::uint64_t slot_bytes);
/// Gives slots back to the file system, neighbours together; where it has no holes they only cost space.
void punch_slots(const File& file, const Slots& slots, std::uint64_t slot_bytes);
/// Gives back all that the index of a shard does not name; nothing of a file that another program laid out, or whose
/// index is damaged. Cost: a read of the index. What nobody may do while the shard is written to.
void punch_free_slots(const File& file, const ArrayMetadata& metadata, std::uint64_t slot_bytes);

}  // namespace flagstone
