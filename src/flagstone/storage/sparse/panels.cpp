#include "flagstone/storage/sparse/panels.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"

namespace flagstone {

void PanelChooser::add(Index row_values) {
  // A binary counter: 2^(p+1) rows are complete when the second half of 2^p is.
  Index sum = row_values;
  values_ += row_values;
  int p = 0;
  most_[0] = std::max(most_[0], sum);
  for (; p + 1 < levels && (rows_ >> p & 1); ++p) {
    sum += half_[static_cast<std::size_t>(p)];
    most_[static_cast<std::size_t>(p + 1)] = std::max(most_[static_cast<std::size_t>(p + 1)], sum);
  }
  half_[static_cast<std::size_t>(p)] = sum;
  ++rows_;
}

Index PanelChooser::panel_rows() const {
  constexpr Index average = Index{2} << 20, most = Index{4} << 20;
  Index by_average = 1, by_both = 1, tail = 0;
  for (int p = 0; p < levels; ++p) {
    const Index rows = Index{1} << p, panels = std::max<Index>(1, ceil_div(rows_, rows));
    const auto at = static_cast<std::size_t>(p);
    if (values_ / panels > average) break;
    by_average = rows;
    if (std::max(most_[at], tail) <= most && by_both == std::max<Index>(1, rows / 2)) by_both = rows;
    if (rows_ >> p & 1) tail += half_[at];  // the last, incomplete panel of the next level
  }
  return by_both < 64 ? by_average : by_both;
}

namespace {

constexpr char magic[8] = {'F', 'L', 'A', 'G', 'C', 'S', 'R', '\1'};

/// crc32c over names, sizes and times of the shards of an array: changes when a peer rewrites one.
std::uint32_t fingerprint(const Array& array) {
  std::map<std::string, std::array<std::int64_t, 3>> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(array.path() + "/c", error)) {
    struct stat status;
    if (::stat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    files[entry.path().string().substr(array.path().size())] = {status.st_size, status.st_mtim.tv_sec,
                                                                status.st_mtim.tv_nsec};
  }
  std::uint32_t sum = 0;
  for (const auto& [name, facts] : files) {
    sum = crc32c(name.data(), name.size(), sum);
    sum = crc32c(facts.data(), sizeof facts, sum);
  }
  return sum;
}

struct Header {
  char magic[8];
  std::uint32_t prints[3];  // data, indices, indptr
  std::uint32_t checksum;   // of the numbers that follow
  Index rows, cols, nnz, numbers;
};

Header header_of(const CsrMatrix& matrix, const std::vector<double>& numbers) {
  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.prints[0] = fingerprint(matrix.data);
  header.prints[1] = fingerprint(matrix.indices);
  header.prints[2] = fingerprint(matrix.indptr);
  header.checksum = crc32c(numbers.data(), numbers.size() * sizeof(double));
  header.rows = matrix.rows, header.cols = matrix.cols, header.nnz = matrix.nnz;
  header.numbers = static_cast<Index>(numbers.size());
  return header;
}

std::string file_of(const CsrMatrix& matrix, const char* name) { return matrix.data.path() + "/__flagstone/" + name; }

void save(const CsrMatrix& matrix, const char* name, const std::vector<double>& numbers) {
  const Header header = header_of(matrix, numbers);
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  text.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
  const std::string path = file_of(matrix, name);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) throw StorageError("create: cannot make the directory of", error.value(), path);
  write_text(path, text);
}

std::optional<std::vector<double>> load(const CsrMatrix& matrix, const char* name) {
  std::string text;
  try {
    text = read_text(file_of(matrix, name), std::size_t{1} << 36);
  } catch (const Error&) {
    return std::nullopt;
  }
  Header found;
  if (text.size() < sizeof found) return std::nullopt;
  std::memcpy(&found, text.data(), sizeof found);
  const std::size_t bytes = text.size() - sizeof found;
  if (bytes % sizeof(double) != 0) return std::nullopt;
  std::vector<double> numbers(bytes / sizeof(double));
  if (bytes != 0) std::memcpy(numbers.data(), text.data() + sizeof found, bytes);  // none has no memory
  const Header expected = header_of(matrix, numbers);
  if (std::memcmp(&found, &expected, sizeof found) != 0) return std::nullopt;
  return numbers;
}

}  // namespace

// Both files hold doubles: exact for every count up to 2^53.
void save_panels(const CsrMatrix& matrix, const std::vector<CsrPanelRange>& panels) {
  std::vector<double> numbers;
  for (const CsrPanelRange& panel : panels)
    for (const Index value : {panel.row, panel.row_end, panel.first, panel.last})
      numbers.push_back(static_cast<double>(value));
  save(matrix, "panels.bin", numbers);
}

std::optional<std::vector<CsrPanelRange>> load_panels(const CsrMatrix& matrix) {
  const auto numbers = load(matrix, "panels.bin");
  if (!numbers || numbers->size() % 4 != 0) return std::nullopt;
  std::vector<CsrPanelRange> panels(numbers->size() / 4);
  const auto at = [&](std::size_t i) { return static_cast<Index>((*numbers)[i]); };
  for (std::size_t i = 0; i < panels.size(); ++i) panels[i] = {at(4 * i), at(4 * i + 1), at(4 * i + 2), at(4 * i + 3)};
  return panels;
}

void save_statistics(const CsrMatrix& matrix, const CsrStatistics& statistics) {
  std::vector<double> numbers{statistics.sum_row_nnz_squared, statistics.sum_squares,
                              static_cast<double>(statistics.bad_row), static_cast<double>(statistics.bad_column)};
  numbers.insert(numbers.end(), statistics.column_sums.begin(), statistics.column_sums.end());
  numbers.insert(numbers.end(), statistics.column_squares.begin(), statistics.column_squares.end());
  save(matrix, "statistics.bin", numbers);
}

std::string statistics_stamp(const CsrMatrix& matrix) {
  struct stat status {};
  if (::stat(file_of(matrix, "statistics.bin").c_str(), &status) != 0) return "none";
  std::string stamp;
  for (const std::int64_t part :
       {static_cast<std::int64_t>(status.st_size), static_cast<std::int64_t>(status.st_ino),
        static_cast<std::int64_t>(status.st_mtim.tv_sec), static_cast<std::int64_t>(status.st_mtim.tv_nsec),
        static_cast<std::int64_t>(fingerprint(matrix.data)), static_cast<std::int64_t>(fingerprint(matrix.indices)),
        static_cast<std::int64_t>(fingerprint(matrix.indptr))})
    stamp += std::to_string(part) + " ";
  return stamp;
}

std::optional<CsrStatistics> load_statistics(const CsrMatrix& matrix) {
  const auto numbers = load(matrix, "statistics.bin");
  if (!numbers || numbers->size() < 4) return std::nullopt;
  const auto n = static_cast<std::ptrdiff_t>(numbers->size() - 4) / 2;
  const bool all = n == matrix.cols || (n == 0 && matrix.cols > most_counted_columns);
  if (!all || numbers->size() % 2 != 0) return std::nullopt;
  CsrStatistics statistics;
  statistics.sum_row_nnz_squared = (*numbers)[0];
  statistics.sum_squares = (*numbers)[1];
  statistics.bad_row = static_cast<Index>((*numbers)[2]);
  statistics.bad_column = static_cast<Index>((*numbers)[3]);
  statistics.column_sums.assign(numbers->begin() + 4, numbers->begin() + 4 + n);
  statistics.column_squares.assign(numbers->begin() + 4 + n, numbers->end());
  return statistics;
}

}  // namespace flagstone
