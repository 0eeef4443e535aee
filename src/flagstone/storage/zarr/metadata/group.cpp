#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

using Json = nlohmann::json;

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

std::string read_text(const std::string& path, std::size_t most) {
  const auto file = File::open(path, File::Mode::read);
  const std::uint64_t size = file->size();
  if (size > most)
    throw FormatError("open: " + path + ": " + format_bytes(size) + " is too large for metadata; it is another file.");
  std::string text(size, '\0');
  read_exactly(*file, text.data(), text.size(), 0);
  return text;
}

void write_text(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".part";
  ::unlink(fresh.c_str());
  try {
    const auto file = File::open(fresh, File::Mode::create);
    write_exactly(file->buffered(), *file, text.data(), text.size(), 0);
    file->sync();
    if (::rename(fresh.c_str(), path.c_str()) != 0) throw StorageError("storage: cannot rename", errno, path);
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
  sync_directory(std::filesystem::path(path).parent_path().string());
}

bool is_zarr_group(const std::string& directory) { return node_type(directory) == "group"; }
bool is_zarr_array(const std::string& directory) { return node_type(directory) == "array"; }

namespace {

/// Attributes of a group as JSON text: inside zarr.json, or in .zattrs beside .zgroup.
std::string group_attributes(const Json& root, const std::string& directory, const std::string& file) {
  const int version = root.is_object() ? root.value("zarr_format", 0) : 0;
  if (version == 3 && root.value("node_type", "") == "group")
    return root.contains("attributes") ? root["attributes"].dump() : "{}";
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
  } catch (const Json::exception&) {
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
  const Json root = {{"zarr_format", 3},
                     {"node_type", "group"},
                     {"attributes", Json::parse(attributes_json.empty() ? "{}" : attributes_json)}};
  write_text(directory + "/zarr.json", root.dump(2) + "\n");
}

namespace {

/// Inside a Zarr array's directory; beside a single file.
std::string dirty_mark(const Array& array) {
  const std::filesystem::path path(array.path());
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return (path / "__flagstone" / "dirty").string();
  return (path.parent_path() / ("." + path.filename().string() + ".flagstone-dirty")).string();
}

}  // namespace

void mark_dirty(const Array& array, bool dirty) {
  if (array.path().empty()) return;
  const std::filesystem::path mark = dirty_mark(array);
  if (!dirty) {
    if (::unlink(mark.c_str()) != 0 && errno != ENOENT)
      throw StorageError("flush: cannot remove the dirty mark", errno, mark.string());
    return;
  }
  std::error_code error;
  if (!mark.parent_path().empty()) std::filesystem::create_directories(mark.parent_path(), error);
  const int descriptor = ::open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) throw StorageError("write: cannot mark the array as dirty", errno, mark.string());
  ::close(descriptor);
  sync_directory(mark.parent_path().empty() ? "." : mark.parent_path().string());
}

bool is_dirty(const Array& array) {
  struct stat status;
  return !array.path().empty() && ::stat(dirty_mark(array).c_str(), &status) == 0;
}

}  // namespace flagstone
