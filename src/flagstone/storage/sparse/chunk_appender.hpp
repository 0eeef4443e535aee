#pragma once
// Writes a 1-D array chunk by chunk without knowing its length beforehand: chunks are filled in order on one thread,
// packed and stored on any.
#include <memory>
#include <string>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/output/state_bytes.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/shard/chunk_checksums.hpp"
#include "flagstone/storage/zarr/shard/shard_index.hpp"

namespace flagstone {

class ChunkAppender {
 public:
  /// blosc lz4 + shuffle; decided by the first chunk where `may_stay_raw`: what does not shrink by two fifths (random
  /// mantissas, 16-bit columns) is stored as it is, because unpacking costs a core more than reading costs the disk.
  ChunkAppender(std::string directory, Dtype dtype, Index chunk, bool may_stay_raw);

  /// Before the first chunk leaves: integers as differences in few bits.
  void bitpack();
  /// The same: what chunks are that are not stored, and what follows the last element; zeros otherwise.
  void set_fill(const std::byte* element);

  /// A chunk that is full (the last one: zero-padded), and where it goes.
  struct Filled {
    Buffer memory;
    Index elements = 0;
    std::size_t entry = 0;  // in its shard
    std::shared_ptr<File> file;
  };

  /// Where the next elements go, and how many fit before the chunk leaves.
  std::byte* next() { return chunk_.data() + static_cast<std::size_t>(filled_) * item_; }
  Index room() const { return chunk_elements_ - filled_; }
  void advance(Index n) { filled_ += n, total_ += n; }
  /// The next chunk begins another shard: all that left before must be stored by then.
  bool ends_shard() const { return left_ > 0 && left_ % per_shard_ == 0; }
  /// Takes the chunk away; the next one is filled in `empty` (of chunk_bytes(); made here where it is none).
  /// Decides with the first chunk what stays raw.
  Filled leave(Buffer empty = {});
  /// Packs into `packed` (of packed_bytes(); not where chunks stay raw) and writes. Direct I/O, no page cache. Chunks
  /// may be stored at the same time.
  void store(const Filled& filled, Buffer& packed);
  /// leave() and store() at once.
  void store();
  /// Stores what is left, writes the index and zarr.json. `attributes`: JSON object text. All chunks must be stored.
  void finish(const std::string& attributes);

  /// Makes what was stored outlive a power failure, and says what is needed to go on. All chunks that left must be
  /// stored.
  void save(StateWriter& to) const;
  /// Of a new appender in the directory of a dead one: goes on from there. What that one wrote behind it is written
  /// again.
  void restore(StateReader& from);

  Index total() const { return total_; }
  std::size_t chunk_bytes() const { return static_cast<std::size_t>(chunk_elements_) * item_; }
  std::size_t packed_bytes() const;

 private:
  std::uint64_t slot_bytes() const;
  void decide();
  void open_shard();
  void close_shard(bool last);
  void save_sums() const;

  std::string directory_;
  ArrayMetadata metadata_;
  Index chunk_elements_;
  std::size_t item_;
  std::vector<std::byte> fill_;  // one element
  bool may_stay_raw_;
  Index filled_ = 0, total_ = 0, left_ = 0;  // elements in memory, elements in all, chunks that left
  Index per_shard_ = 1;
  Buffer chunk_, packed_;
  std::shared_ptr<File> shard_;
  std::vector<ShardEntry> entries_;  // of the shard; long enough from the start: store() writes one each
  std::vector<ChunkSum> sums_;       // the same
  std::vector<ShardSums> blocks_;
};

}  // namespace flagstone
