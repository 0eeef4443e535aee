#pragma once
// A Zarr v3 array on disk: its shards' files and indexes, loaded when first touched.
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "flagstone/storage/array/file_extent.hpp"
#include "flagstone/storage/chunk/chunk_layout.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/shard/chunk_checksums.hpp"
#include "flagstone/storage/zarr/shard/commit_journal.hpp"
#include "flagstone/storage/zarr/shard/free_slots.hpp"
#include "flagstone/storage/zarr/shard/shard_index.hpp"

namespace flagstone {

class ZarrStore final : public ArrayStore, public Located {
 public:
  struct Options {
    bool writable = false;
    bool new_sums = false;       // a new array, whose checksums are kept
    bool verify = false;         // reads of parts read and verify the whole chunk
    bool ignore_damage = false;  // of the checksums' file: they count as unknown then
    bool in_place = false;       // a slot of a ring of epochs: no transactions, write_in_place() says when
  };
  /// Opens the shards that exist, up to as many as are held open: who has an array open keeps it when its path is
  /// replaced. Shards beyond those are looked for in the same directory (not path); where it is gone, that is said.
  ZarrStore(std::string directory, ArrayMetadata metadata, const Options& options);
  ~ZarrStore() override;

  Transfer read(const Box& box) const override;
  Transfer geometry(const Box& box) const override;
  std::optional<Transfer> read_straight(const Box& box, const Tile& to) const override;
  Shape neighbourhood() const override;
  std::vector<PartRead> read_joined(const Box& box, const Tile& to, std::size_t most_bytes) const override;
  Transfer write(const Box& box) override;
  Transfer write_joined(const Box& box, const Tile& from) override;
  Transfer planned_write(const Box& box) override;  // makes no shard, takes no slot
  std::size_t write_staging(const Box& box) override;
  void written(const Box& box) override;
  void flush() override;
  void checkpoint() override;
  void adopt() override;
  bool reserve() override;
  bool stored(const Box& box) const override;
  std::uint64_t look() override;
  std::size_t run_bytes(const Shape& box) const override { return layout_.run_bytes(box); }
  std::optional<FileExtent> located() const override { return file_extent(opened_); }

  const ArrayMetadata& metadata() const { return metadata_; }
  const ChunkLayout& layout() const { return layout_; }
  /// Where a chunk is stored now; FormatError when its shard is damaged.
  StoredChunk locate(const Shape& chunk) const;
  /// Whether the checksums say that an absent chunk is all fill value; false where they say nothing.
  bool absent_for_good(const Shape& chunk) const;
  /// File, index and checksums of a shard; no file where it is absent. FormatError where its index is damaged.
  struct ShardFacts {
    std::shared_ptr<File> file;
    std::vector<ShardEntry> entries;
    ShardSums sums;
  };
  ShardFacts facts(const Shape& shard) const;
  std::string path_of(const Shape& shard) const { return directory_ + "/" + metadata_.key(shard); }
  const std::string& sums_path() const { return sums_.path(); }
  // In-place updates, driven by Transaction, which holds the lock of the array from begin() to end().
  /// From now on chunks are written beside what is there: to free slots of their shards.
  void begin();
  /// Syncs what was written since begin(); the new index of every shard that was written to.
  ArrayRecord prepare();
  /// How a transaction ended; unknown: nobody can say what is on the disk.
  enum class End { committed, given_up, unknown };
  /// Forgets what was written, or what is on the disk by now. What no index needs goes back to the file system.
  void end(End how);
  bool transacting() const { return transacting_; }
  /// Chunks that were given places to be written to, ever: whether a call that failed had changed something.
  std::uint64_t updates() const;
  /// FormatError where a shard is there and another program laid it out.
  void check_ours(const Shape& shard);
  /// Makes a chunk absent, in a transaction; it may lie outside the array's shape (in a shard that does not).
  void drop(const Shape& chunk);
  /// Whether every chunk is a file of its own, which a write replaces by a rename: another program made the array, and
  /// no transaction covers it.
  bool by_chunks() const { return !metadata_.sharded; }
  // Slots of a ring of epochs.
  /// Whether writes go to this array from now on; they overwrite it in place, and flush() ends that. What a writer that
  /// died had overwritten by half is forgotten.
  void write_in_place(bool next);
  /// The writer is done with the ring: for reading from now on, what is there now.
  void end_in_place();
  /// From now on this handle is of the epoch that is there: reads of a later one are refused.
  void keep_epoch();
  bool in_place() const { return options_.in_place; }
  const std::string& directory() const { return directory_; }
  /// Bytes of all chunks as stored. Cost: loads every shard's index once.
  std::uint64_t stored_bytes() const;
  std::uint64_t pass_bytes() const override;
  std::uint64_t unpack_bytes() const override { return layout_.unpack_bytes(); }
  std::uint64_t pack_bytes() const override { return layout_.pack_bytes(); }
  bool verified() const override;

 private:
  struct Shard {
    std::shared_ptr<File> file;  // let go when many are open
    std::vector<ShardEntry> entries;
    ShardSums sums;
    std::uint64_t file_bytes = 0;
    bool indexed = false;  // entries and file_bytes are known
    bool exists = false;
    bool unsynced = false;    // written to since the last flush
    std::uint64_t made = 0;   // inode of the file that this transaction made (or this handle, and did not flush)
    std::uint64_t inode = 0;  // of the file that is written to
    bool reserved = false;    // slots that are not used may take space
    // While it is written to:
    std::vector<ShardEntry> before;     // the index on the disk
    ShardSums sums_before;              // and the checksums
    std::vector<std::uint32_t> placed;  // slot of every chunk that is written, or `nowhere`
    std::uint64_t bytes_before = 0;     // the length of the file
    Slots free, taken;                  // by chunks that this transaction wrote
  };
  static constexpr std::uint32_t nowhere = 0xFFFFFFFFu;
  struct Place {
    Shape shard;
    std::size_t entry = 0;  // in the shard's index
  };

  Place place_of(const Shape& chunk) const;
  bool still_there() const;  // directory_ is the directory that was opened
  std::shared_ptr<File> open_file(const Shape& shard, File::Mode mode) const;
  void hold_existing();
  Shard& load(const Shape& shard) const;               // mutex_ held
  void hold(const Shape& shard, Shard& loaded) const;  // mutex_ held: opens, and bounds the files held open
  bool make(const Shape& shard, Shard& fresh);         // mutex_ held; whether its space is reserved
  bool make_here(const std::string& path, Shard& fresh);
  void make_aside(const std::string& here, const std::string& path, const Shape& shard, Shard& fresh);
  bool fill_shard(File& file, const Shard& fresh) const;
  std::vector<Shape> shards_of_shape() const;
  bool set_idle(const Shape& shard, const Shard& loaded);
  void wake(const Shape& shard, Shard& loaded);
  void drop_idle();
  void unmake(const Shape& shard, std::uint64_t inode) const;
  StoredChunk locate_file(const Shape& chunk) const;
  StoredChunk slot(const NewChunk& chunk);  // for writing
  void refuse_unless_writable() const;
  StoredChunk chunk_aside(const NewChunk& chunk);  // of an array that is not sharded
  void put_chunks(const Box& box);
  void drop_stale();
  void check_in_place(const Shape& shard, const Shard& loaded) const;
  void mark_in_place(bool writing);  // mutex_ held
  void check_epoch() const;          // mutex_ held
  void check_layout(const Shape& shard, const Shard& loaded) const;
  void touch(const Shape& shard, Shard& loaded);  // before the first write to it
  std::uint32_t place(const Shape& shard, Shard& loaded, std::size_t entry);
  void vacate(Shard& loaded, std::size_t entry);
  void punch(const Shape& shard, Shard& loaded, const Slots& slots);
  Slots left_over(const Shard& shard) const;
  Slots given_up(const Shard& shard) const;
  Slots unused(const Shard& shard) const;
  void give_back(const Shape& shard, Shard& loaded, const std::vector<ShardEntry>& entries,
                 const Slots& slots) noexcept;
  bool drop_empty(const Shape& shard, Shard& made);
  void flush(bool last);
  void grow(const Shape& shard, Shard& loaded);
  void grow_journaled(const Shape& shard, Shard& loaded, std::uint64_t bytes);
  void look_again() const;
  using MetadataFile = std::array<std::int64_t, 4>;  // inode, bytes, time
  MetadataFile metadata_file() const;
  bool changed_before_it_went() const;  // mutex_ held
  void check_shape() const;             // the array has the shape that this handle knows
  void check_unchanged() const;         // mutex_ held
  [[noreturn]] void throw_changed() const;
  std::vector<JournalHead> heads() const;
  const ShardRecord* overlaid(const Shape& shard, std::uint64_t file_bytes) const;
  void read_index(const Shape& shard, Shard& loaded) const;
  std::size_t chunks_missed(const Shape& shard) const;
  void check_sums(const Shard& shard) const;
  void mismatched(const Shape& chunk, std::uint32_t expected) const;

  std::string directory_;
  int opened_ = -1;  // descriptor of the directory
  ArrayMetadata metadata_;
  ChunkLayout layout_;
  const Options options_;
  std::set<Shape> absent_at_first_;  // of few shards: what replaces the array later does not make these unknown
  mutable ChunkSums sums_;
  bool keeps_sums_ = false;
  bool transacting_ = false;
  bool final_ = false;    // what is stored is not written again: its checksums on the disk stay right
  bool next_ = false;     // of a ring of epochs: the slot that is written
  bool writing_ = false;  // and it says so
  bool broken_ = false;   // a step of this transaction failed, and so did its undoing
  std::uint64_t updates_ = 0;
  mutable bool looked_ = false;
  mutable MetadataFile metadata_seen_{};
  mutable bool went_ = false;                 // another array took the path, or none: looked at once
  mutable std::uint64_t unseen_ = 0;          // changes that no journal told
  mutable std::vector<JournalHead> seen_;     // when the shards were looked up
  std::optional<JournalHead> kept_;           // of the epoch that this handle is of
  mutable std::optional<Committed> overlay_;  // what was committed and is perhaps not in the indexes
  mutable const ArrayRecord* overlay_part_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<Shape, Shard> shards_;
  mutable std::deque<Shape> open_;       // oldest first
  std::map<Shape, std::uint64_t> idle_;  // reserved shards that nothing was written to, and their inodes
  std::set<std::string> new_directories_;
  std::map<Shape, NewChunk> pending_;             // between taking a place and the completion of the write
  std::map<Shape, std::shared_ptr<File>> aside_;  // chunks that are files, under hidden names meanwhile
};

/// The Zarr store behind a handle; null for other kinds of arrays.
ZarrStore* zarr_store(const Array& array);

}  // namespace flagstone
