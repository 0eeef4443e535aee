#pragma once
// The checksums of an array's chunks, in a private file beside them: __flagstone/chunks.bin.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "flagstone/storage/zarr/metadata/array_metadata.hpp"

namespace flagstone {

/// Of one chunk: crc32c of its bytes as they are stored.
struct ChunkSum {
  std::uint32_t crc = 0;
  std::uint32_t epoch = 0;  // counts the flushes of the shard; 0: the checksum is not known
};

/// What is known of the file of a shard when its checksums are written and when they are looked up.
struct ShardStamp {
  std::uint64_t bytes = 0;    // length of the file
  std::uint32_t index = 0;    // crc32c of its index
  std::uint64_t inode = 0;    // for messages: whether the file is a copy,
  std::int64_t modified = 0;  // or was touched since (nanoseconds)
};

/// The checksums of one shard, in the order of its index.
struct ShardSums {
  enum class State : std::uint8_t { unknown, known, damaged };
  State state = State::unknown;
  std::uint32_t epoch = 0;
  ShardStamp stamp;  // as it was written
  std::vector<ChunkSum> chunks;
};

/// A header of 64 bytes, then for every shard (C order) a block: 64 bytes about its file, 8 for every chunk. Blocks are
/// at fixed places of a sparse file, so that opening an array of a million chunks reads nothing and touching a shard
/// reads one block. Header, block head and the list of a block carry a crc32c each.
///
/// A block counts while its shard has the length and the index it was written for: they survive a copy, and a program
/// that lays the shard out anew changes them. What a writer is about to overwrite is marked unknown first; the mark is
/// one sector, so it is there or not.
class ChunkSums {
 public:
  /// `directory`: descriptor of the array's directory (it may be renamed meanwhile).
  ChunkSums(int directory, std::string path, const ArrayMetadata& metadata);
  ~ChunkSums();
  ChunkSums(const ChunkSums&) = delete;

  /// Whether there is such a file for this layout of the array.
  bool there();
  /// Makes the file where it is not there (or is one for another layout).
  void make();
  /// The block of a shard whose file looks like `stamp` now. Never throws for damage: that is a state.
  ShardSums load(std::size_t shard, const ShardStamp& stamp);
  /// The block as it was written, for whatever file (repair).
  ShardSums last_known(std::size_t shard);
  /// Whether a shard was never stored, as far as the file tells that there() found first: it stays open, and tells that
  /// of an array that was removed too. False where nobody can say, after a resize for example.
  bool never_stored(std::size_t shard);
  /// Whether a resize put another file in the place of the one that there() found.
  bool replaced() const;
  /// Marks a shard's checksums unknown before it is overwritten.
  void invalidate(std::size_t shard);
  void invalidate_all();
  /// The shard's file is about to become longer, its index stays: both lengths count.
  void growing(std::size_t shard, std::uint64_t from, std::uint64_t to);
  /// Writes a block: the list first, its head last. StorageError.
  void save(std::size_t shard, const ShardSums& sums);
  /// For an array that is about to get another shape: the same sums in a second file, where blocks lie as that shape
  /// has them. It counts from the moment on when zarr.json says so; adopt() makes it the file.
  /// `each_shard` calls what it is given for every shard that exists.
  static void carry(int directory, const std::string& path, const ArrayMetadata& from, const ArrayMetadata& to,
                    const std::function<void(const std::function<void(const Shape&)>&)>& each_shard);
  static void adopt(int directory);
  /// fdatasync of what was saved, and of the directory where the file is new.
  void sync();
  /// Of the shard whose coordinates in the grid of shards are these.
  std::size_t number_of(const Shape& shard) const;
  /// Bytes of the file when every shard has its block.
  std::uint64_t bytes() const { return head_bytes + blocks_ * stride_; }
  const std::string& path() const { return path_; }

 private:
  static constexpr std::uint64_t head_bytes = 64;
  struct FileHead;
  struct BlockHead;

  bool open_existing(bool writable);
  ShardSums read_block(std::size_t shard, const ShardStamp* stamp);
  FileHead expected_head() const;
  bool open_named(const char* name, bool writable);
  std::uint64_t place(std::size_t shard) const { return head_bytes + shard * stride_; }

  int directory_ = -1, file_ = -1;
  bool writable_ = false, looked_ = false, fresh_ = false, damaged_ = false;
  std::string path_;
  Shape grid_;  // of shards
  std::uint32_t layout_ = 0;
  std::uint64_t entries_ = 0, blocks_ = 1, stride_ = 0;
};

/// Length, index and age of an open shard.
class File;
ShardStamp stamp_of(const File& file, std::uint32_t index_crc);

}  // namespace flagstone
