#include "flagstone/storage/epochs.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/crc32c.hpp"
#include "flagstone/storage/metadata.hpp"
#include "flagstone/storage/output.hpp"
#include "flagstone/storage/zarr_store.hpp"

namespace flagstone {
namespace {

using Json = nlohmann::json;

std::string member(int slot, const std::string& field) {
  return std::to_string(slot) + (field.empty() ? "" : "/" + field);
}

void check(const std::vector<EpochField>& fields, int slots) {
  std::set<std::string> names;
  for (const EpochField& field : fields) {
    const bool one_name = field.name.find('/') == std::string::npos && !field.name.starts_with("__") &&
                          field.name != "." && field.name != "..";
    if (!one_name || !names.insert(field.name).second || (field.name.empty() && fields.size() > 1))
      throw ShapeError("epochs: '" + field.name + "' is no name for one of " + std::to_string(fields.size()) +
                       " arrays; give each a name of its own, without slashes.");
  }
  if (fields.empty() || slots < 2)
    throw ShapeError("epochs: " + std::to_string(slots) + " slots of " + std::to_string(fields.size()) +
                     " arrays were asked for; two slots and one array are the least.");
}

Json record_of(std::uint64_t epoch, int slots, const std::vector<std::string>& fields, const Json& values) {
  const auto current = std::to_string(epoch % static_cast<std::uint64_t>(slots));
  Json record = {{"epoch", epoch}, {"current", current}, {"slots", slots}, {"fields", fields}, {"values", values}};
  const std::string text = record.dump();
  record["crc32c"] = crc32c(text.data(), text.size());
  return record;
}

}  // namespace

void Epochs::create(const std::string& path, const std::vector<EpochField>& fields, int slots, bool replace) {
  check(fields, slots);
  Output output(path, replace);
  std::vector<std::string> names;
  for (const EpochField& field : fields) names.push_back(field.name);
  const Json attributes = {{"flagstone", {{"epochs", record_of(0, slots, names, Json::object())}}}};
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
  read_record();
  arrays_.assign(static_cast<std::size_t>(slots_), std::vector<Array>(fields_.size()));
  if (!writable_) return;
  for (int slot = 0; slot < slots_; ++slot)
    for (std::size_t field = 0; field < fields_.size(); ++field)
      locks_.push_back(std::make_unique<WriterLock>(Directory(place_of(slot, field))));
  sync_directory(path_);
  read_record();  // another writer may have committed before the locks were ours
  take_roles();
}

/// Handles may outlive it, and nobody holds the locks then.
Epochs::~Epochs() {
  for (const auto& slot : arrays_)
    for (const Array& array : slot)
      if (array) zarr_store(array)->end_in_place();
}

std::string Epochs::place_of(int slot, std::size_t field) const { return path_ + "/" + member(slot, fields_[field]); }

void Epochs::read_record() {
  const std::string file = path_ + "/zarr.json";
  try {
    const Json record = Json::parse(read_text(file)).at("attributes").at("flagstone").at("epochs");
    epoch_ = record.at("epoch").get<std::uint64_t>();
    slots_ = record.at("slots").get<int>();
    fields_ = record.at("fields").get<std::vector<std::string>>();
    values_ = record.at("values").dump();
    if (record != record_of(epoch_, std::max(slots_, 1), fields_, record.at("values")))
      throw FormatError("epochs: the record in " + file + " does not match its checksum; it is damaged.");
  } catch (const Json::exception&) {
    throw FormatError("epochs: " + file +
                      " does not say which epoch is the current one; it is no ring of epochs, or another program took "
                      "its attributes away.");
  }
}

Array& Epochs::array_in(int slot, std::size_t field) {
  Array& array = arrays_[static_cast<std::size_t>(slot)].at(field);
  if (!array) array = open_epoch_array(place_of(slot, field), writable_);
  return array;
}

/// Only the next slot is written. What a dead writer left in it counts for nothing, and may not even be readable.
void Epochs::take_roles() {
  const int next = static_cast<int>((epoch_ + 1) % static_cast<std::uint64_t>(slots_));
  for (int slot = 0; slot < slots_; ++slot)
    for (std::size_t field = 0; field < fields_.size(); ++field)
      zarr_store(array_in(slot, field))->write_in_place(slot == next);
}

void Epochs::refresh() {
  if (!writable_) read_record();
}

Array Epochs::current(std::size_t field) {
  return array_in(static_cast<int>(epoch_ % static_cast<std::uint64_t>(slots_)), field);
}

Array Epochs::next(std::size_t field) {
  if (!writable_) throw StorageError("epochs: the ring is open for reading only; open it with mode r+", EROFS, path_);
  if (failed_) throw StorageError("epochs: the last commit could not be synced; open the ring again", EIO, path_);
  return array_in(static_cast<int>((epoch_ + 1) % static_cast<std::uint64_t>(slots_)), field);
}

void Epochs::commit(const std::string& values_json) {
  for (std::size_t field = 0; field < fields_.size(); ++field) next(field).store().flush();
  const std::string file = path_ + "/zarr.json";
  Json root = Json::parse(read_text(file)), values;
  try {
    values = Json::parse(values_json.empty() ? "{}" : values_json);
  } catch (const Json::exception&) {
    throw FormatError("commit: the values of an epoch are no JSON.");
  }
  root["attributes"]["flagstone"]["epochs"] = record_of(epoch_ + 1, slots_, fields_, values);
  commit_step("epoch");
  try {
    write_text(file, root.dump(2) + "\n");
  } catch (const StorageError& error) {
    const std::uint64_t before = epoch_;
    read_record();
    if (epoch_ == before) throw;
    failed_ = true;  // the slot of the epoch before must not be overwritten until this is on the disk
    throw StorageError(
        "commit: the epoch is the current one for everybody, but its record could not be synced; it is stored for "
        "certain once the ring was opened again",
        error.number, file);
  }
  ++epoch_;
  values_ = values.dump();
  take_roles();
}

}  // namespace flagstone
