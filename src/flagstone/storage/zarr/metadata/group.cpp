#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/metadata/fields.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

bool is_file(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

/// node_type of a directory's zarr.json (Zarr v2 has a file for each type); empty where there is none that can be read.
std::string node_type(const std::string& directory) {
  if (!is_file(directory + "/zarr.json")) {
    if (is_file(directory + "/.zarray")) return "array";
    return is_file(directory + "/.zgroup") ? "group" : "";
  }
  try {
    const Json root = Json::parse(read_text(directory + "/zarr.json"));
    return root.is_object() && root.contains("node_type") && root["node_type"].is_string()
               ? root["node_type"].get<std::string>()
               : "";
  } catch (const StorageError& error) {
    if (error.number == EIO) throw;  // what a disk cannot read is not something else
    return "";
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

bool is_zarr_group(const std::string& directory) { return node_type(directory) == "group"; }
bool is_zarr_array(const std::string& directory) { return node_type(directory) == "array"; }

namespace {

/// Attributes of a group as JSON text: inside zarr.json, or in .zattrs beside .zgroup.
std::string group_attributes(const Json& root, const std::string& directory, const std::string& file) {
  const int version = root.is_object() ? root.value("zarr_format", 0) : 0;
  if (version == 3 && root.value("node_type", std::string()) == "group") {
    metadata_json::check_known(root, {"zarr_format", "node_type", "attributes"}, file);
    return root.contains("attributes") ? root["attributes"].dump() : "{}";
  }
  if (version != 2) throw FormatError("open: " + file + ": it is not the metadata of a Zarr group.");
  const std::string attributes = directory + "/.zattrs";
  return is_file(attributes) ? Json::parse(read_text(attributes)).dump() : "{}";
}

}  // namespace

GroupInfo open_group(const std::string& directory) {
  const bool v2 = !is_file(directory + "/zarr.json") && is_file(directory + "/.zgroup");
  const std::string file = directory + (v2 ? "/.zgroup" : "/zarr.json");
  const std::string text = read_text(file);
  GroupInfo info;
  try {
    info.attributes = group_attributes(Json::parse(text), directory, file);
  } catch (const JsonError&) {
    throw FormatError("open: " + file + ": " +
                      (text.empty() ? "the file is empty" : "it is not valid Zarr metadata (JSON)") +
                      "; the group is damaged.");
  }
  std::error_code error, ignored;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.rfind("__", 0) == 0 || name.front() == '.' || !at->is_directory(ignored)) continue;
    const std::string kind = node_type(at->path().string());
    if (kind == "array") info.arrays.push_back(name);
    if (kind == "group") info.groups.push_back(name);
  }
  if (error) throw StorageError("open: cannot list the members of the group", error.value(), directory);
  std::sort(info.arrays.begin(), info.arrays.end());
  std::sort(info.groups.begin(), info.groups.end());
  return info;
}

void write_group(const std::string& directory, const std::string& attributes_json) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw StorageError("storage: cannot create the group", error.value(), directory);
  const Json root = Json::object({{"zarr_format", 3},
                                  {"node_type", "group"},
                                  {"attributes", Json::parse(attributes_json.empty() ? "{}" : attributes_json)}});
  write_text(directory + "/zarr.json", root.dump(2) + "\n");
}

}  // namespace flagstone
