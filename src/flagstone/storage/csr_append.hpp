#pragma once
// Writes a 1-D array chunk by chunk, in order, without knowing its length beforehand, in the memory of two chunks.
#include <memory>
#include <string>
#include <vector>

#include "flagstone/base/memory.hpp"
#include "flagstone/storage/metadata.hpp"
#include "flagstone/storage/shard_index.hpp"

namespace flagstone {

class ChunkAppender {
 public:
  /// blosc lz4 + shuffle; decided by the first chunk where `may_stay_raw`: what does not shrink by two fifths (random
  /// mantissas, 16-bit columns) is stored as it is, because unpacking costs a core more than reading costs the disk.
  ChunkAppender(std::string directory, Dtype dtype, Index chunk, bool may_stay_raw);

  /// Where the next elements go, and how many fit before store() is due.
  std::byte* next() { return chunk_.data() + static_cast<std::size_t>(filled_) * item_; }
  Index room() const { return chunk_elements_ - filled_; }
  void advance(Index n) { filled_ += n, total_ += n; }
  /// Packs and writes the chunk in memory (zero-padded if it is the last). Direct I/O, no page cache.
  void store();
  /// Stores what is left, writes the index and zarr.json. `attributes`: JSON object text.
  void finish(const std::string& attributes);
  Index total() const { return total_; }

 private:
  std::uint64_t slot_bytes() const;
  void open_shard();
  void close_shard(bool last);

  std::string directory_;
  ArrayMetadata metadata_;
  Index chunk_elements_;
  std::size_t item_;
  bool may_stay_raw_;
  Index filled_ = 0, total_ = 0, stored_ = 0;  // elements in memory, elements in all, chunks written
  Index per_shard_ = 0;
  Buffer chunk_, packed_;
  std::shared_ptr<File> shard_;
  std::vector<ShardEntry> entries_;
};

}  // namespace flagstone
