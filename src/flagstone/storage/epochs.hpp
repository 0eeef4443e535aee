#pragma once
// Arrays that exchange roles: the next state is written in place, and one record makes it the current one.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flagstone/storage/transaction.hpp"
#include "flagstone/storage/zarr.hpp"

namespace flagstone {

/// One array of a state: `x` of x, r and p. A single array may have no name.
struct EpochField {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::float64;
  ZarrOptions options;
};

/// A ring of slots, each of which holds a whole state (one array of every field):
///
///     g/zarr.json           attributes: flagstone.epochs = {epoch, current, slots, fields, values}
///     g/0 g/1               the slots: arrays, or with named fields groups of arrays (g/0/x, g/0/r)
///
/// Epoch e is in slot e mod slots. commit() syncs what was written to the next slot and replaces zarr.json, which is
/// the commit point: no element is copied, and other programs find the current slot in the group's attributes. After a
/// crash at any moment the last committed epoch is there, whole; what the next slot held is forgotten.
///
/// A reader that is still in a slot when the writer comes round and overwrites it hears so (StorageError(EAGAIN)).
class Epochs {
 public:
  /// Makes the group, whole or not at all; epoch 0 is all fill value. ShapeError: less than two slots, no field, names
  /// twice, or several fields of which one has no name.
  static void create(const std::string& path, const std::vector<EpochField>& fields, int slots, bool replace);

  /// Writers hold the locks of all arrays (StorageError(EBUSY) says who else does).
  Epochs(const std::string& path, bool writable);
  ~Epochs();
  Epochs(const Epochs&) = delete;

  std::uint64_t epoch() const { return epoch_; }  // commits so far
  int slots() const { return slots_; }
  const std::vector<std::string>& fields() const { return fields_; }
  /// The values that were given with the last commit: JSON object text.
  const std::string& values() const { return values_; }
  /// For readers: looks which epoch is the last one by now. Cost: one small file.
  void refresh();
  /// Of a field (its place in fields()), as committed; for reading.
  Array current(std::size_t field = 0);
  /// What becomes the next epoch; written in place. It holds what was there slots() - 1 epochs ago, or fill values
  /// after a crash: write all of it. StorageError(EROFS) for readers.
  Array next(std::size_t field = 0);
  /// Durable when it returns. Where it throws, the epoch before is the current one, or the message says that nobody
  /// knows. Cost: a sync of every shard of the next slot (twice), of its checksums, journals, and of the record.
  void commit(const std::string& values_json = "{}");

 private:
  std::string place_of(int slot, std::size_t field) const;
  Array& array_in(int slot, std::size_t field);
  void read_record();
  void take_roles();

  std::string path_, values_ = "{}";
  bool writable_, failed_ = false;
  std::uint64_t epoch_ = 0;
  int slots_ = 0;
  std::vector<std::string> fields_;
  std::vector<std::vector<Array>> arrays_;  // by slot and field, opened when first asked for
  std::vector<std::unique_ptr<WriterLock>> locks_;
};

}  // namespace flagstone
