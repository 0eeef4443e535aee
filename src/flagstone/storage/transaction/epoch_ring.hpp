#pragma once
// Arrays that exchange roles: the next state is written in place, and one record makes it the current one.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/storage/transaction/transaction.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

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
/// A reader's handle is of one epoch: once the writer has come round to its slot, every read of it is refused, with
/// StorageError(EAGAIN) while the slot is overwritten and StorageError(ESTALE) after that.
///
/// A ring belongs to the directory that was opened: where another one took its path, or it was moved or removed,
/// everything that touches it throws StorageError(ESTALE).
class Epochs {
 public:
  static constexpr int most_slots = 128;  // a writer holds two descriptors for every array of every slot

  /// Makes the group, whole or not at all; epoch 0 is all fill value. ShapeError: less than two slots or too many, no
  /// field, names twice, names that Zarr keeps for itself, or several fields of which one has no name. `replace`: what
  /// is there; StorageError(EBUSY) where that is a ring and somebody writes it.
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
  /// Of a field (its place in fields()), as committed; for reading. Readers: of epoch(); where its arrays were not
  /// opened yet and the writer went on since refresh(), that is the last one. Cost: the arrays of an epoch are opened
  /// when it is first asked for.
  Array current(std::size_t field = 0);
  /// What becomes the next epoch; written in place. It holds what was there slots() - 1 epochs ago, or fill values
  /// after a crash: write all of it. StorageError(EROFS) for readers.
  Array next(std::size_t field = 0);
  /// Durable when it returns. Where it throws, the epoch before is the current one, or the message says that nobody
  /// knows. Cost: a sync of every shard of the next slot (twice), of its checksums, journals, and of the record.
  void commit(const std::string& values_json = "{}");

 private:
  std::string place_of(int slot, std::size_t field) const;
  int slot_of(std::uint64_t epoch) const { return static_cast<int>(epoch % static_cast<std::uint64_t>(slots_)); }
  Array& array_in(int slot, std::size_t field);
  void require_place() const;
  template <class Step>
  void in_ring(const Step& step) const;
  void parse_record();
  void read_record();
  void hold_state();
  void write_record(const std::string& text);
  void take_roles();

  std::string path_, values_ = "{}";
  bool writable_, failed_ = false;
  std::uint64_t epoch_ = 0;
  int slots_ = 0;
  std::vector<std::string> fields_;
  std::vector<std::vector<Array>> arrays_;  // by slot and field, opened when first asked for
  std::optional<std::uint64_t> held_;       // readers: the epoch that arrays_ are of
  std::unique_ptr<Directory> place_;        // the ring that was opened, whatever its path names by now
  std::vector<std::unique_ptr<WriterLock>> locks_;
};

}  // namespace flagstone
