#pragma once
// Updates of arrays in place: all of them or none, durable when commit() returns.
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/transaction/writer_lock.hpp"

namespace flagstone {

struct Committed;
class ZarrStore;

/// Chunks are written to free slots of their shards, and nobody sees them; commit() syncs them, writes one record with
/// the new indexes of all shards of all arrays (the commit point), then overwrites the indexes and clears the record.
/// A process that dies before the record is complete has changed nothing; after it, readers overlay the record and the
/// next writer finishes. Data are written once; the record takes 24 bytes for every chunk of the shards touched.
class Transaction {
 public:
  Transaction() = default;
  ~Transaction();  // rolls back what was not committed
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// Takes the array's lock, finishes what a dead writer had committed, and from now on writes to it belong to this
  /// transaction. False where the array is not updated by transactions (flat files, memory). Nothing for one that is
  /// in. Any thread may add; commit() and rollback() are for when nobody writes any more.
  bool add(const Array& array);
  /// The same, with the array's lock already taken: it is given back by who holds it last.
  bool add_locked(const Array& array, std::shared_ptr<WriterLock> lock);
  /// Cost: a sync of every shard, of the record (twice), of the indexes and the checksums, and of the record again.
  void commit();
  void rollback() noexcept;

 private:
  struct Part {
    Array array;
    ZarrStore* store = nullptr;
    std::shared_ptr<WriterLock> lock;
    std::shared_ptr<const Directory> place;
  };
  void record(const Committed& fresh);
  void end(bool whole);  // false: of what is on the disk nobody can be certain
  std::mutex mutex_;
  std::vector<Part> parts_;
};

}  // namespace flagstone
