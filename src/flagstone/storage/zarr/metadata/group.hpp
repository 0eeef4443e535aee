#pragma once
// Groups of Zarr: their attributes and members.
#include <string>
#include <vector>

namespace flagstone {

/// A group: zarr.json with attributes (JSON object text) and its member arrays and groups.
struct GroupInfo {
  std::string attributes;
  std::vector<std::string> arrays;  // names of member arrays, links included, sorted
  std::vector<std::string> groups;
};
bool is_zarr_group(const std::string& directory);
bool is_zarr_array(const std::string& directory);
GroupInfo open_group(const std::string& directory);
void write_group(const std::string& directory, const std::string& attributes_json);

}  // namespace flagstone
