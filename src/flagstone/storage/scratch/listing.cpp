#include "flagstone/storage/scratch/listing.hpp"

#include <unistd.h>

#include <filesystem>

#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/lock.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/scratch/names.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using Kind = ScratchEntry::Kind;
using scratch_names::disk_bytes;
using scratch_names::ending;
using scratch_names::entry_of;
using scratch_names::half_built;

std::string beside(const std::string& place, const char* suffix) {
  return fs::path(place).replace_extension(suffix).string();
}

std::string source_of_import(const std::string& place) {
  try {
    return Json::parse(read_text(beside(place, ".json"), 1 << 20)).at("source").get<std::string>();
  } catch (const std::exception&) {
    return "unknown";
  }
}

ScratchEntry begun_import(const std::string& place) {
  const bool live = file_locked(place + lock_suffix);
  return {place, live ? Kind::imported : Kind::left_behind, disk_bytes(place),
          live ? "in progress" : "an unfinished import", !live};
}

/// Called <name>-<process>-<id>.zarr.
ScratchEntry result_at(const std::string& folder, const std::string& place) {
  const std::string name = entry_of(place);
  const bool live = file_locked(beside(folder + "/" + name, ".lock"));
  const std::size_t id = name.rfind('-'), dash = id == 0 || id == std::string::npos ? id : name.rfind('-', id - 1);
  const std::string process = dash == std::string::npos ? "unknown" : name.substr(dash + 1, id - dash - 1);
  return {place, live ? Kind::result : Kind::left_behind, disk_bytes(place),
          "process " + process + (live ? "" : ", ended"), !live};
}

}  // namespace

const char* name_of(Kind kind) {
  return kind == Kind::imported ? "import" : kind == Kind::result ? "result" : "left behind";
}

std::vector<ScratchEntry> scratch_entries(const std::string& scratch) {
  const std::string imports = (fs::path(scratch) / "imports").string();
  const std::string results = (fs::path(scratch) / results_folder).string();
  std::vector<ScratchEntry> found;
  for (const std::string& place : ending(imports, ".zarr"))
    found.push_back({place, Kind::imported, disk_bytes(place), source_of_import(place), true});
  for (const std::string& place : half_built(imports)) found.push_back(begun_import(place));
  for (const std::string& place : ending(results, ".zarr")) found.push_back(result_at(results, place));
  for (const std::string& place : half_built(results)) found.push_back(result_at(results, place));
  return found;
}

std::uint64_t clearable_scratch(const std::string& scratch) {
  std::uint64_t bytes = 0;
  for (const ScratchEntry& entry : scratch_entries(scratch))
    if (entry.clearable) bytes += entry.bytes;
  return bytes;
}

ScratchCleared clear_scratch(const std::string& scratch) {
  ScratchCleared cleared;
  for (const ScratchEntry& entry : scratch_entries(scratch)) {
    if (!entry.clearable) continue;
    remove_tree(entry.path);
    for (const std::string& gone : {beside(entry.path, ".json"), beside(entry.path, ".used"),
                                    beside(entry.path, ".lock"), entry.path + lock_suffix})
      ::unlink(gone.c_str());
    ++cleared.entries;
    cleared.bytes += entry.bytes;
  }
  return cleared;
}

}  // namespace flagstone
