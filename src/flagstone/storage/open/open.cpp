#include "flagstone/storage/open/open.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/formats/npy.hpp"
#include "flagstone/storage/open/foreign.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"
#include "flagstone/storage/zarr/metadata/long_metadata.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using Opened = std::variant<Array, CsrMatrix>;

constexpr int most_replaced = 20;  // times that a directory may be replaced while it is opened

std::string quoted(const std::string& text) { return "'" + text + "'"; }

/// " that holds a, b/", of a group.
std::string members_text(const std::string& place) {
  std::string text;
  try {
    const GroupInfo group = open_group(place);
    for (const std::string& name : group.arrays) text += (text.empty() ? "" : ", ") + name;
    for (const std::string& name : group.groups) text += (text.empty() ? "" : ", ") + name + "/";
  } catch (const Error&) {
    return "";
  }
  return " that holds " + (text.empty() ? "nothing" : text);
}

std::string member_place(const std::string& place, const std::string& member) {
  const fs::path outer = fs::path(place).lexically_normal();
  const fs::path inner = (outer / member).lexically_normal();
  const fs::path within = inner.lexically_relative(outer);
  const bool inside = !within.empty() && within != "." && *within.begin() != "..";
  std::error_code ignored;
  if (!inside || !fs::is_directory(inner, ignored))
    throw StorageError(
        "open: " + quoted(place) + " is a group" + members_text(place) + ", and has no member " + quoted(member),
        ENOENT, inner.string());
  return inner.string();
}

/// Members whose metadata cannot be read, or are gone while chunks are there: opening one says what is wrong.
void open_damaged_members(const std::string& place) {
  std::error_code ignored;
  std::vector<std::string> found;
  for (fs::directory_iterator at(place, ignored), end; at != end; at.increment(ignored)) {
    const std::string inner = at->path().string(), name = at->path().filename().string();
    if (name.front() == '.' || name.starts_with("__") || !at->is_directory(ignored)) continue;
    if (is_zarr_array(inner) || is_zarr_group(inner)) continue;
    for (const char* trace : {"zarr.json", ".zarray", ".zgroup", "c", "__flagstone"})
      if (fs::exists(fs::path(inner) / trace, ignored)) found.push_back(inner);
  }
  std::sort(found.begin(), found.end());
  for (const std::string& inner : found) open_zarr_array(inner);
}

bool is_anndata(const std::string& place) {
  const Json attributes = Json::parse(open_group(place).attributes);
  if (!attributes.is_object() || !attributes.contains("encoding-type")) return false;
  const Json kind = attributes["encoding-type"];
  return kind.is_string() && kind.get<std::string>() == "anndata";
}

Opened open_directory(const std::string& place, const OpenOptions& options);

Opened open_group_member(const std::string& place, const OpenOptions& options) {
  if (is_csc_group(place))
    throw FormatError("open: " + quoted(place) +
                      " is a sparse matrix in columns (CSC), and here one in rows (CSR) is taken; turn it with: "
                      "flagstone convert " +
                      place + " OUT.zarr");
  if (is_anndata(place)) {
    std::error_code ignored;
    if (fs::is_directory(place + "/X", ignored)) return open_directory(place + "/X", options);
    throw FormatError("open: " + quoted(place) + " has no X; it is an AnnData group" + members_text(place) +
                      "; name one of them (OpenOptions::member).");
  }
  open_damaged_members(place);
  const GroupInfo group = open_group(place);
  if (group.arrays.size() == 1 && group.groups.empty()) return open_directory(place + "/" + group.arrays[0], options);
  if (group.groups.size() == 1 && group.arrays.empty()) return open_directory(place + "/" + group.groups[0], options);
  throw FormatError("open: " + quoted(place) + " is a group" + members_text(place) +
                    "; name one of them (OpenOptions::member).");
}

/// BudgetError where the metadata of a directory and its members have no room.
void check_room(const std::string& place, std::uint64_t memory) {
  if (memory == 0) return;
  const LongMetadata longest = longest_metadata(place, 1);
  const std::uint64_t least = resident_bytes() + longest.parsed;
  if (longest.parsed == 0 || least <= memory) return;
  throw BudgetError("open: the metadata in " + quoted(longest.file) + ", " + format_bytes(longest.text) +
                        " of text, take up to " + format_bytes(longest.parsed) + " beside the " +
                        format_bytes(resident_bytes()) + " that are resident; memory is " + format_bytes(memory) +
                        ". Raise OpenOptions::memory.",
                    align_up(least, MiB) + MiB);
}

Opened open_directory(const std::string& place, const OpenOptions& options) {
  check_room(place, options.memory);
  if (!options.member.empty()) {
    OpenOptions inner = options;
    inner.member.clear();
    return open_directory(member_place(place, options.member), inner);
  }
  if (is_csr_group(place)) {
    if (options.writable)
      throw FormatError("open: " + quoted(place) +
                        " is a sparse matrix, which is not changed in place; write a new "
                        "one (CsrWriter).");
    return open_csr(place);
  }
  if (is_zarr_group(place)) return open_group_member(place, options);
  std::error_code ignored;
  // Metadata that cannot be read: opening says what is wrong with it.
  if (is_zarr_array(place) || fs::exists(place + "/zarr.json", ignored))
    return open_zarr_array(place, options.writable, options.verify);
  throw FormatError("open: " + quoted(place) +
                    " is a directory without zarr.json (or .zarray, .zgroup), so it is no Zarr array or group.");
}

Opened open_file(const std::string& place, const OpenOptions& options) {
  if (const auto foreign = foreign_format(place))
    throw FormatError("open: " + quoted(place) + " is " + *foreign +
                      ", which only the Python package reads; convert it first: flagstone convert " + place +
                      " OUT.zarr");
  if (!options.member.empty())
    throw FormatError("open: " + quoted(place) + " is a file and has no member " + quoted(options.member) +
                      "; leave it out.");
  if (options.verify)
    throw FormatError("open: " + quoted(place) + " is a file, which has no checksums of chunks; leave verify out.");
  return open_npy(place, options.writable);
}

/// Which directory stands there now.
std::optional<std::pair<dev_t, ino_t>> identity(const std::string& place) {
  struct stat status;
  if (::stat(place.c_str(), &status) != 0) return std::nullopt;
  return std::pair{status.st_dev, status.st_ino};
}

}  // namespace

Opened open_any(const std::string& path, const OpenOptions& options) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) throw StorageError("open", errno, path);
  if (S_ISREG(status.st_mode)) return open_file(path, options);
  if (!S_ISDIR(status.st_mode))
    throw FormatError("open: " + quoted(path) + " is a pipe, a socket or a device; name a file or a directory.");
  for (int replaced = 0;; ++replaced) {
    const auto before = identity(path);
    try {
      return open_directory(path, options);
    } catch (const Error&) {
      if (replaced == most_replaced || identity(path) == before) throw;
    }
  }
}

Array open(const std::string& path, const OpenOptions& options) {
  const Opened opened = open_any(path, options);
  if (const auto* array = std::get_if<Array>(&opened)) return *array;
  throw FormatError("open: " + quoted(std::get<CsrMatrix>(opened).path) +
                    " is a sparse matrix; open it with open_sparse.");
}

CsrMatrix open_sparse(const std::string& path, const OpenOptions& options) {
  const Opened opened = open_any(path, options);
  if (const auto* matrix = std::get_if<CsrMatrix>(&opened)) return *matrix;
  throw FormatError("open: " + quoted(std::get<Array>(opened).path()) + " is a dense array; open it with open.");
}

}  // namespace flagstone
