#pragma once
// The commit record of a transaction: __flagstone/journal of the first array, which the others point to.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/storage/zarr/shard/chunk_checksums.hpp"
#include "flagstone/storage/zarr/shard/shard_index.hpp"

namespace flagstone {

/// An array's directory, held open: what is done through it is not done to another array that took its path.
class Directory {
 public:
  /// StorageError where it cannot be opened.
  explicit Directory(const std::string& path);
  ~Directory();
  Directory(const Directory&) = delete;
  /// The directory at a relative path, and null where there is none or a symbolic link is on the way.
  std::shared_ptr<const Directory> at(const std::string& relative) const;
  bool same(const Directory& other) const;
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  /// Of a file in it, for calls that take a path.
  std::string file(const std::string& name) const { return self() + "/" + name; }
  std::string self() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  Directory(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  int descriptor_;
  std::string path_;
};

/// Of one shard: its whole new index, so that a torn one on the disk does not matter.
struct ShardRecord {
  Shape shard;
  std::uint64_t file_bytes = 0;
  std::vector<ShardEntry> entries;
  std::uint32_t epoch = 0;
  std::vector<ChunkSum> sums;  // empty: the array keeps none
};

struct ArrayRecord {
  std::string path;  // relative to the array that holds the journal; "." is that array
  std::vector<ShardRecord> shards;
};

using CommitRecord = std::vector<ArrayRecord>;

/// One sector at the start of the journal: what readers compare to know whether anything was committed meanwhile.
struct JournalHead {
  /// writing: what the array holds is being overwritten in place (the next slot of a ring of epochs).
  enum class State : std::uint32_t { idle, committed, pointer, writing };
  char magic[8] = {};
  std::uint64_t commits = 0;  // of this array, ever
  std::uint64_t id = 0;       // of the transaction
  std::uint64_t bytes = 0;    // of what follows
  State state = State::idle;
  std::uint32_t body = 0;  // crc32c of what follows
  std::uint32_t unused[5] = {};
  std::uint32_t crc = 0;  // of the head before this

  bool operator==(const JournalHead&) const = default;
};

/// The journal of one array. The body is synced before the head is written, which is one sector: a checksum that does
/// not match is damage (FormatError), never a writer that died.
class Journal {
 public:
  /// `directory`: descriptor of the array's directory; `path` is for messages.
  Journal(int directory, std::string path) : directory_(directory), path_(std::move(path)) {}
  explicit Journal(const Directory& directory) : Journal(directory.descriptor(), directory.path()) {}

  /// Zeros where there is none. Cost: one system call on an open file.
  JournalHead head() const;
  std::string body(const JournalHead& head) const;

  /// Each is durable when it returns.
  void commit(const JournalHead& before, std::uint64_t id, const CommitRecord& record);
  void point(const JournalHead& before, std::uint64_t id, const std::string& to);
  void clear();
  /// Says that the array is being overwritten in place, or that it is whole again.
  void mark(JournalHead::State state);

 private:
  void write(const JournalHead& before, std::uint64_t id, JournalHead::State state, const std::string& body);
  int open_journal() const;
  void sync_name() const;
  int directory_;
  std::string path_;
};

/// No two are alike.
std::uint64_t new_transaction_id();

std::string to_bytes(const CommitRecord& record);
/// FormatError where the bytes are no record.
CommitRecord record_from(const std::string& bytes, const std::string& path);

/// What was committed for the array in `directory` and may not have reached its indexes: its own journal, or the one
/// that it points to. `holder`: the directory of the array that holds it.
struct Committed {
  CommitRecord record;
  std::uint64_t id = 0;
  std::shared_ptr<const Directory> holder;
};
std::optional<Committed> committed(const std::shared_ptr<const Directory>& directory);
std::optional<Committed> committed(const std::string& directory);
/// Whether the journal of an array says that it takes part in a transaction that another one holds.
bool points_to(const Directory& directory, const Committed& found);
/// The part of a record that is about the array in `directory`; null where there is none.
const ArrayRecord* part_for(const Committed& found, const std::string& directory);

/// Called before every step that changes a file; tests end the process there.
extern void (*commit_step)(const char* what);

}  // namespace flagstone
