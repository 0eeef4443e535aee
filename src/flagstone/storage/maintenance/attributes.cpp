#include "flagstone/storage/maintenance/attributes.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/transaction/recovery.hpp"
#include "flagstone/storage/transaction/writer_lock.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/metadata/checksum.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"
#include "flagstone/storage/zarr/shard/commit_journal.hpp"

namespace flagstone {
namespace {

Json object_of(const std::string& text) {
  Json found;
  try {
    found = Json::parse(text);
  } catch (const JsonError&) {  // null is no object either
  }
  if (!found.is_object()) throw FormatError("attrs: the attributes must be one JSON object; give a mapping.");
  return found;
}

Json names_of(const std::vector<std::string>& names) {
  const Json list = Json::array();
  for (const std::string& name : names) list.push_back(name.empty() ? Json() : Json(name));
  return list;
}

bool is_file(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

void set_attributes(const std::string& directory, const std::string& attributes,
                    const std::vector<std::string>& names) {
  const Json given = object_of(attributes);
  const auto place = std::make_shared<const Directory>(directory);
  WriterLock lock(*place);
  const bool v3 = is_file(place->file("zarr.json"));
  const std::string file = place->file(v3 ? "zarr.json" : ".zarray");
  const std::string text = read_text(file);
  const ArrayMetadata old =
      v3 ? parse_array_metadata(text, directory + "/zarr.json") : parse_array_metadata_v2(text, directory + "/.zarray");
  if (!names.empty() && names.size() != old.shape.size())
    throw ShapeError("attrs: " + std::to_string(names.size()) + " names of dimensions for an array of " +
                     std::to_string(old.shape.size()) + "; give one for each, or none.");
  commit_step("attributes");
  if (!v3) {
    if (!names.empty()) given.set("_ARRAY_DIMENSIONS", names_of(names));
    write_text(place->file(".zattrs"), given.dump(4) + "\n");
    return;
  }
  if (old.sharded && old.foreign_levels.empty()) recover(place, lock);
  std::string fresh = with_member(text, "attributes", given);
  fresh = with_member(fresh, "dimension_names", names.empty() ? Json() : names_of(names));
  parse_array_metadata(fresh, directory + "/zarr.json");
  write_text(file, fresh);
  if (::access(array_stamp(directory).c_str(), F_OK) == 0) stamp_metadata(file, fresh, array_stamp(directory));
  commit_step("attributes written");
}

}  // namespace flagstone
