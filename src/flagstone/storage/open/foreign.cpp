#include "flagstone/storage/open/foreign.hpp"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/file.hpp"

namespace flagstone {
namespace {

constexpr std::string_view hdf5_signature("\x89HDF\r\n\x1a\n", 8);

bool ends_with(std::string_view name, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(), [&](std::string_view suffix) { return name.ends_with(suffix); });
}

/// Its signature stands at 0, 512, 1024, and so on: before it lies a block of the user's own.
bool is_hdf5(const File& file) {
  char found[hdf5_signature.size()];
  for (std::uint64_t at = 0; at + sizeof found <= file.size(); at = at == 0 ? 512 : 2 * at) {
    read_exactly(file, found, sizeof found, at);
    if (std::string_view(found, sizeof found) == hdf5_signature) return true;
  }
  return false;
}

bool begins_like_matrixmarket(std::string_view head) {
  constexpr std::string_view banner = "%%matrixmarket";
  return head.size() >= banner.size() && std::equal(banner.begin(), banner.end(), head.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

}  // namespace

std::optional<std::string> foreign_format(const std::string& path) {
  const auto file = File::open(path, File::Mode::read);
  if (file->size() == 0) throw FormatError("open: '" + path + "' is empty.");
  char bytes[16] = {};
  const std::size_t length = std::min<std::uint64_t>(sizeof bytes, file->size());
  read_exactly(*file, bytes, length, 0);
  const std::string_view head(bytes, length);
  if (head.starts_with("\x93NUMPY")) return std::nullopt;
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06"))
    return path.ends_with(".zip") ? "a zip archive" : "an .npz archive";
  if (is_hdf5(*file)) return "an HDF5 file";
  if (head.starts_with("CDF\x01") || head.starts_with("CDF\x02") || head.starts_with("CDF\x05")) return "a NetCDF file";
  if (head.starts_with("PAR1")) return "a Parquet file";
  if (head.starts_with("ARROW1")) return "an Arrow file";
  std::string_view name = path;
  const bool packed = head.starts_with("\x1f\x8b");
  if (name.ends_with(".gz")) name.remove_suffix(3);
  if (begins_like_matrixmarket(head) || ends_with(name, {".mtx"})) return "a MatrixMarket file";
  if (ends_with(name, {".svm", ".svmlight", ".libsvm"}) || (packed && name.ends_with(".txt")))
    return "an SVMlight file";
  if (ends_with(name, {".csv", ".tsv"})) return "a CSV file";
  throw FormatError(
      "open: '" + path +
      "' is no format that is read here: Zarr (a directory) or .npy; a flat binary file opens with "
      "open_raw, and .npz, HDF5, NetCDF, Parquet, Arrow, MatrixMarket, CSV and SVMlight after flagstone convert.");
}

}  // namespace flagstone
