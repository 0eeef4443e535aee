#include "flagstone/storage/transaction/epoch_ring.hpp"

#include <cerrno>
#include <filesystem>
#include <set>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/output/output.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {
namespace {

std::string member(int slot, const std::string& field) {
  return std::to_string(slot) + (field.empty() ? "" : "/" + field);
}

void check(const std::vector<EpochField>& fields, int slots) {
  std::set<std::string> names;
  for (const EpochField& field : fields) {
    const bool one_name = field.name.find_first_of(std::string("/\0", 2)) == std::string::npos &&
                          !field.name.starts_with("__") && !field.name.starts_with(".") &&
                          !field.name.starts_with("zarr.json");
    if (!one_name || !names.insert(field.name).second || (field.name.empty() && fields.size() > 1))
      throw ShapeError("epochs: '" + field.name + "' is no name for one of " + std::to_string(fields.size()) +
                       " arrays; give each a name of its own, without slashes, that Zarr does not keep for itself.");
  }
  if (fields.empty() || slots < 2 || slots > Epochs::most_slots)
    throw ShapeError("epochs: " + std::to_string(slots) + " slots of " + std::to_string(fields.size()) +
                     " arrays were asked for; two slots and one array are the least, " +
                     std::to_string(Epochs::most_slots) + " slots the most.");
}

Json record_of(std::uint64_t epoch, int slots, const std::vector<std::string>& fields, const Json& values) {
  const auto current = std::to_string(epoch % static_cast<std::uint64_t>(slots));
  const Json record =
      Json::object({{"epoch", epoch}, {"current", current}, {"slots", slots}, {"fields", fields}, {"values", values}});
  const std::string text = record.dump();
  record.set("crc32c", crc32c(text.data(), text.size()));
  return record;
}

Json values_in(const std::string& text) {
  if (const std::string digits = beyond_64_bits(text); !digits.empty())
    throw FormatError("commit: a value of the epoch is " + digits + "; whole numbers are kept from -2^63 to 2^64 - 1.");
  try {
    return Json::parse(text.empty() ? "{}" : text);
  } catch (const JsonError&) {
    throw FormatError("commit: the values of an epoch are no JSON.");
  }
}

using Locks = std::vector<std::unique_ptr<WriterLock>>;

/// Of all arrays; one that is not there is said when it is opened.
Locks take_locks(const std::string& path, int slots, const std::vector<std::string>& fields) {
  Locks locks;
  std::error_code ignored;
  for (int slot = 0; slot < slots; ++slot)
    for (const std::string& field : fields)
      if (const std::string place = path + "/" + member(slot, field); std::filesystem::is_directory(place, ignored))
        locks.push_back(std::make_unique<WriterLock>(Directory(place)));
  return locks;
}

/// Nobody writes to a ring that is about to be replaced, nor begins to. Anything else that is there has no writers.
Locks locks_of_old(const std::string& path) {
  int slots = 0;
  std::vector<std::string> fields;
  try {
    const Epochs old(path, false);
    slots = old.slots();
    fields = old.fields();
  } catch (const Error&) {
    return {};
  }
  return take_locks(path, slots, fields);
}

}  // namespace

void Epochs::create(const std::string& path, const std::vector<EpochField>& fields, int slots, bool replace) {
  check(fields, slots);
  const Locks old = replace ? locks_of_old(path) : Locks{};
  Output output(path, replace);
  std::vector<std::string> names;
  for (const EpochField& field : fields) names.push_back(field.name);
  const Json record = Json::object({{"epochs", record_of(0, slots, names, Json::object())}});
  const Json attributes = Json::object({{"flagstone", record}});
  write_group(output.directory(), attributes.dump());
  for (int slot = 0; slot < slots; ++slot) {
    if (!names[0].empty()) write_group(output.directory() + "/" + std::to_string(slot), "{}");
    for (const EpochField& field : fields)
      create_zarr_array(output.directory() + "/" + member(slot, field.name), field.shape, field.dtype, field.options)
          .store()
          .flush();
  }
  output.publish();
}

Epochs::Epochs(const std::string& path, bool writable)
    : path_(std::filesystem::absolute(path).string()), writable_(writable) {
  parse_record();
  place_ = std::make_unique<Directory>(path_);
  arrays_.assign(static_cast<std::size_t>(slots_), std::vector<Array>(fields_.size()));
  read_record();
  if (!writable_) return;
  locks_ = take_locks(path_, slots_, fields_);
  sync_directory(path_);
  read_record();  // another writer may have committed before the locks were ours
  take_roles();
}

/// Handles may outlive it, and nobody holds the locks then.
Epochs::~Epochs() {
  for (const auto& slot : arrays_)
    for (const Array& array : slot) try {
        if (array && writable_) zarr_store(array)->end_in_place();
      } catch (const Error&) {  // its journal is damaged: said when it is read
      }
}

std::string Epochs::place_of(int slot, std::size_t field) const { return path_ + "/" + member(slot, fields_[field]); }

void Epochs::require_place() const {
  try {
    if (place_->same(Directory(path_))) return;
  } catch (const StorageError&) {
  }
  throw StorageError("epochs: the ring was replaced, moved or removed meanwhile; open it again", ESTALE, path_);
}

/// A step that works by path counts only where the path is that of the ring before and after.
template <class Step>
void Epochs::in_ring(const Step& step) const {
  require_place();
  try {
    step();
  } catch (const Error&) {
    require_place();
    throw;
  }
  require_place();
}

void Epochs::read_record() {
  const int slots = slots_;
  const std::vector<std::string> fields = fields_;
  in_ring([&] { parse_record(); });
  if (slots_ == slots && fields_ == fields) return;
  slots_ = slots;
  fields_ = fields;
  throw StorageError("epochs: the ring was replaced, moved or removed meanwhile; open it again", ESTALE, path_);
}

void Epochs::parse_record() {
  const std::string file = path_ + "/zarr.json";
  try {
    const Json record = Json::parse(read_text(file)).at("attributes").at("flagstone").at("epochs");
    epoch_ = record.at("epoch").get<std::uint64_t>();
    slots_ = record.at("slots").get<int>();
    fields_ = record.at("fields").get<std::vector<std::string>>();
    values_ = record.at("values").dump();
    if (slots_ < 2 || fields_.empty() || !(record == record_of(epoch_, slots_, fields_, record.at("values"))))
      throw FormatError("epochs: the record in " + file + " does not match its checksum; it is damaged.");
  } catch (const JsonError&) {
    throw FormatError("epochs: " + file +
                      " does not say which epoch is the current one; it is no ring of epochs, or another program took "
                      "its attributes away.");
  }
}

Array& Epochs::array_in(int slot, std::size_t field) {
  Array& array = arrays_[static_cast<std::size_t>(slot)].at(field);
  if (!array) in_ring([&] { array = open_epoch_array(place_of(slot, field), writable_); });
  return array;
}

/// A reader's handles are all of one epoch. While the record says the same before and after, nobody has begun to write
/// to that slot in between.
void Epochs::hold_state() {
  while (held_ != epoch_) {
    const std::uint64_t epoch = epoch_;
    std::vector<Array> fresh;
    in_ring([&] {
      for (std::size_t field = 0; field < fields_.size(); ++field) {
        fresh.push_back(open_epoch_array(place_of(slot_of(epoch), field), false));
        zarr_store(fresh.back())->keep_epoch();
      }
    });
    read_record();
    if (epoch_ != epoch) continue;
    arrays_.assign(arrays_.size(), std::vector<Array>(fields_.size()));
    arrays_[static_cast<std::size_t>(slot_of(epoch))] = std::move(fresh);
    held_ = epoch;
  }
}

/// Only the next slot is written. What a dead writer left in it counts for nothing, and may not even be readable.
void Epochs::take_roles() {
  const int next = slot_of(epoch_ + 1);
  for (int slot = 0; slot < slots_; ++slot)
    for (std::size_t field = 0; field < fields_.size(); ++field)
      zarr_store(array_in(slot, field))->write_in_place(slot == next);
}

void Epochs::refresh() {
  if (!writable_) read_record();
}

Array Epochs::current(std::size_t field) {
  if (!writable_) hold_state();
  return array_in(slot_of(epoch_), field);
}

Array Epochs::next(std::size_t field) {
  if (!writable_) throw StorageError("epochs: the ring is open for reading only; open it with mode r+", EROFS, path_);
  if (failed_) throw StorageError("epochs: the last commit could not be synced; open the ring again", EIO, path_);
  require_place();
  return array_in(slot_of(epoch_ + 1), field);
}

void Epochs::commit(const std::string& values_json) {
  const Json values = values_in(values_json);
  Json root;
  in_ring([&] {
    for (std::size_t field = 0; field < fields_.size(); ++field) next(field).store().flush();
    root = Json::parse(read_text(path_ + "/zarr.json"));
  });
  root["attributes"]["flagstone"].set("epochs", record_of(epoch_ + 1, slots_, fields_, values));
  commit_step("epoch");
  write_record(root.dump(2) + "\n");
  ++epoch_;
  values_ = values.dump();
  take_roles();
}

/// Through the directory that was opened: never into the record of a ring that took its path.
void Epochs::write_record(const std::string& text) {
  try {
    in_ring([&] { write_text(place_->file("zarr.json"), text); });
  } catch (const StorageError& error) {
    if (error.number == ESTALE) throw;
    const std::uint64_t before = epoch_;
    read_record();
    if (epoch_ == before)
      throw StorageError("commit: the record of the epoch cannot be written, so the one before stays current",
                         error.number, path_ + "/zarr.json");
    failed_ = true;  // the slot of the epoch before must not be overwritten until this is on the disk
    throw StorageError(
        "commit: the epoch is the current one for everybody, but its record could not be synced; it is stored for "
        "certain once the ring was opened again",
        error.number, path_ + "/zarr.json");
  }
}

}  // namespace flagstone
