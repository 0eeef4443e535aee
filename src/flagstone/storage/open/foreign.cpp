#include "flagstone/storage/open/foreign.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <sstream>
#include <string>
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

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Three lines of a whole number and then one of three: UCI's bag of words.
bool begins_like_docword(std::string_view head) {
  for (const int words : {1, 1, 1, 3}) {
    const std::string_view line = head.substr(0, head.find('\n'));
    head.remove_prefix(std::min(head.size(), line.size() + 1));
    std::istringstream rest{std::string(line)};
    int found = 0;
    for (std::string word; rest >> word; ++found)
      if (!std::all_of(word.begin(), word.end(), is_digit)) return false;
    if (found != words) return false;
  }
  return true;
}

/// Three whole numbers are all, the last of them 0: the name must tell, any text may be so.
bool is_empty_docword(std::string_view head) {
  std::istringstream rest{std::string(head)};
  std::string documents, words, entries, more;
  rest >> documents >> words >> entries;
  const bool counted =
      std::all_of(documents.begin(), documents.end(), is_digit) && std::all_of(words.begin(), words.end(), is_digit);
  return counted && !entries.empty() && entries.find_first_not_of('0') == std::string::npos && !(rest >> more);
}

bool is_called_docword(const std::string& path) {
  return std::filesystem::path(path).filename().string().starts_with("docword.");
}

}  // namespace

std::optional<std::string> foreign_format(const std::string& path) {
  const auto file = File::open(path, File::Mode::read);
  if (file->size() == 0) throw FormatError("open: '" + path + "' is empty.");
  char bytes[128] = {};  // four lines of the longest numbers
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
  if (ends_with(name, {".csv", ".tsv"})) return "a CSV file";
  if (begins_like_docword(head) || (is_called_docword(path) && (packed || is_empty_docword(head))))
    return "a UCI docword file";
  if (ends_with(name, {".svm", ".svmlight", ".libsvm"}) || (packed && name.ends_with(".txt")))
    return "an SVMlight file";
  throw FormatError("open: '" + path +
                    "' is no format that is read here: Zarr (a directory) or .npy; a flat binary file opens with "
                    "open_raw, and .npz, HDF5, NetCDF, Parquet, Arrow, MatrixMarket, CSV, SVMlight and UCI docword "
                    "after flagstone convert.");
}

}  // namespace flagstone
