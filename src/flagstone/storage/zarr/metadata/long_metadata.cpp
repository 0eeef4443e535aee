#include "flagstone/storage/zarr/metadata/long_metadata.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t short_text = 256 * KiB;  // takes next to nothing
constexpr std::uint64_t most_text = 256 * MiB;   // longer ones are refused unread
constexpr std::uint64_t copies = 8;              // of its text that are held together, at most
constexpr std::uint64_t value_bytes = 80;        // of a parsed value beside its text: a node, places kept for the next

std::uint64_t parsed_bytes(const std::string& path, std::uint64_t length) {
  const auto file = File::open(path, File::Mode::read);
  std::string piece(MiB, '\0');
  std::uint64_t values = 0;
  for (std::uint64_t at = 0; at < length; at += piece.size()) {
    const auto got = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), length - at));
    read_exactly(*file, piece.data(), got, at);
    values += static_cast<std::uint64_t>(
        std::count_if(piece.data(), piece.data() + got, [](char c) { return c == ',' || c == '[' || c == '{'; }));
  }
  return copies * length + value_bytes * values;
}

void look(const std::string& directory, int levels, LongMetadata& most) {
  bool any = false;
  for (const char* name : {"zarr.json", ".zarray", ".zgroup", ".zattrs"}) {  // .zmetadata is never read
    const std::string file = directory + "/" + name;
    struct stat status;
    if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const auto length = static_cast<std::uint64_t>(status.st_size);
    if (length <= short_text || length > most_text) continue;
    any = true;
    if (const std::uint64_t parsed = parsed_bytes(file, length); parsed > most.parsed) most = {file, length, parsed};
  }
  if (levels == 0 || (!any && is_zarr_array(directory))) return;  // whose members are chunks
  std::error_code ignored;
  for (fs::directory_iterator at(directory, ignored), end; at != end; at.increment(ignored)) {
    const bool followed = levels == 1;  // a circle of links ends
    if (at->path().filename().string().starts_with("__") || (!followed && at->is_symlink(ignored))) continue;
    if (at->is_directory(ignored)) look(at->path().string(), levels - 1, most);
  }
}

}  // namespace

LongMetadata longest_metadata(const std::string& directory, int levels) {
  LongMetadata most;
  try {
    look(directory, levels, most);
  } catch (const Error&) {  // who reads it says what is wrong
  }
  return most;
}

}  // namespace flagstone
