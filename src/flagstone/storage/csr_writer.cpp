#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/csr.hpp"
#include "flagstone/storage/csr_append.hpp"
#include "flagstone/storage/csr_rows.hpp"
#include "flagstone/storage/csr_sidecar.hpp"

namespace flagstone {
namespace {

constexpr Index chunk_values = Index{1} << 19;

Dtype index_dtype(Index cols) {
  if (cols < 0) return Dtype::uint32;  // not known before the end
  if (cols <= Index{1} << 8) return Dtype::uint8;
  if (cols <= Index{1} << 16) return Dtype::uint16;
  return cols <= Index{1} << 32 ? Dtype::uint32 : Dtype::int64;
}

void link(const std::string& directory, const char* target, const char* name) {
  std::error_code error;
  std::filesystem::create_directory_symlink(target, directory + "/" + name, error);
  if (error) throw StorageError("create: cannot make the link", error.value(), directory + "/" + name);
}

}  // namespace

struct CsrWriter::Impl {
  Impl(const std::string& where, Index n, Dtype value, bool try_bytes)
      : directory(where),
        cols(n),
        given(value),
        exact(value == Dtype::boolean ? Dtype::uint8 : value),
        narrow(try_bytes && size_of(exact) > 1),
        index(index_dtype(n)),
        limit(n >= 0 ? n : Index{1} << 32),
        data(where + "/data", narrow ? Dtype::uint8 : exact, chunk_values, true),
        indices(where + "/indices", index, chunk_values, true),
        indptr(where + "/indptr", Dtype::int64, chunk_values, false),
        totals(static_cast<std::size_t>(std::max<Index>(n, 0))) {
    put_pointer(0);
  }

  void append(Index count, const Index* pointers, ColumnsView columns, const std::byte* values);
  void check_pointers(Index count, const Index* pointers) const;
  void check_row(Index row, Index smallest, Index largest);
  void put(ColumnsView columns, const std::byte* values, Index n);
  void put_values(const std::byte* values, Index n);
  void widen();
  void put_rows(const Index* pointers, ColumnsView columns, const std::byte* values, Index row, Index end);
  void put_pointer(Index pointer);
  void end_row(Index row_values);
  void write_attributes();
  CsrMatrix finish();

  std::string directory;
  Index cols;
  Dtype given, exact;  // exact: as given, but bool as uint8
  bool narrow;         // data holds bytes so far
  Dtype index;
  Index limit;  // columns are below it
  ChunkAppender data, indices, indptr;
  std::vector<ColumnTotals> totals;
  CsrStatistics statistics;
  PanelChooser chooser;
  CanonicalRow canonical;
  Index rows = 0, nnz = 0, widest = 0, bad_position = -1;
};

void CsrWriter::Impl::check_pointers(Index count, const Index* pointers) const {
  if (count < 0 || pointers[0] != 0)
    throw FormatError("csr: the row pointers of a block must start at 0; subtract its first one.");
  for (Index i = 0; i < count; ++i)
    if (pointers[i + 1] < pointers[i])
      throw FormatError("csr: the row pointers decrease at row " + std::to_string(rows + i) +
                        "; they must not, fix the input.");
}

void CsrWriter::Impl::check_row(Index row, Index smallest, Index largest) {
  if (smallest < 0 || largest >= limit)
    throw FormatError("csr: row " + std::to_string(row) + " holds column " +
                      std::to_string(smallest < 0 ? smallest : largest) + "; columns must be 0 to " +
                      std::to_string(limit - 1) + ", fix the input or give more columns.");
  if (largest < widest) return;
  widest = largest + 1;
  if (cols < 0 && totals.size() < static_cast<std::size_t>(widest))
    totals.resize(std::max(static_cast<std::size_t>(widest), 2 * totals.size()));
}

void CsrWriter::Impl::put_pointer(Index pointer) {
  if (indptr.room() == 0) indptr.store();
  std::memcpy(indptr.next(), &pointer, sizeof pointer);
  indptr.advance(1);
}

void CsrWriter::Impl::end_row(Index row_values) {
  nnz += row_values;
  ++rows;
  put_pointer(nnz);
  chooser.add(row_values);
  statistics.sum_row_nnz_squared += static_cast<double>(row_values) * static_cast<double>(row_values);
}

/// Elements whose columns are checked: statistics, then into the chunks; a full pair is packed on two threads.
void CsrWriter::Impl::put(ColumnsView columns, const std::byte* values, Index n) {
  const std::size_t item = size_of(exact);
  const Index bad = add_totals(values, exact, columns, n, totals.data());
  if (bad >= 0 && bad_position < 0) {
    bad_position = data.total() + bad;
    statistics.bad_column = columns[bad];
  }
  while (n > 0) {
    if (data.room() == 0) {
      auto packing = std::async(std::launch::async, [&] { data.store(); });
      indices.store();
      packing.get();
    }
    const Index part = std::min(n, data.room());
    put_values(values, part);
    store_columns(columns, part, index, indices.next());
    indices.advance(part);
    values += static_cast<std::size_t>(part) * item;
    columns = columns.from(part);
    n -= part;
  }
}

/// At most data.room() values.
void CsrWriter::Impl::put_values(const std::byte* values, Index n) {
  if (narrow && !narrow_values(values, exact, n, data.next())) widen();
  if (!narrow) std::memcpy(data.next(), values, static_cast<std::size_t>(n) * size_of(exact));
  data.advance(n);
}

/// A value does not fit a byte: what was written so far is written again as it was given.
void CsrWriter::Impl::widen() {
  const std::string path = directory + "/data", aside = directory + "/data.bytes";
  data.finish("{}");
  std::filesystem::rename(path, aside);
  data = ChunkAppender(path, exact, chunk_values, true);
  narrow = false;
  const Array bytes = open_zarr_array(aside);
  const Index length = bytes.shape()[0];
  for (Index first = 0; first < length; first += chunk_values) {
    const std::vector<Index> part = read_integers(bytes, first, std::min(chunk_values, length - first));
    widen_values(part.data(), static_cast<Index>(part.size()), exact, data.next());
    data.advance(static_cast<Index>(part.size()));
    if (data.room() == 0) data.store();
  }
  std::filesystem::remove_all(aside);
}

/// Rows [row, end) of a block, all canonical.
void CsrWriter::Impl::put_rows(const Index* pointers, ColumnsView columns, const std::byte* values, Index row,
                               Index end) {
  const Index first = pointers[row];
  const Index before = nnz;
  for (Index i = row; i < end; ++i)
    if (pointers[i] < pointers[i + 1]) check_row(rows + i - row, columns[pointers[i]], columns[pointers[i + 1] - 1]);
  put(columns.from(first), values + static_cast<std::size_t>(first) * size_of(exact), pointers[end] - first);
  for (Index i = row; i < end; ++i) {
    const Index start = before + pointers[i] - first;
    if (statistics.bad_row < 0 && bad_position >= start && bad_position < start + pointers[i + 1] - pointers[i])
      statistics.bad_row = rows;
    end_row(pointers[i + 1] - pointers[i]);
  }
}

void CsrWriter::Impl::append(Index count, const Index* pointers, ColumnsView columns, const std::byte* values) {
  check_pointers(count, pointers);
  for (Index row = 0; row < count;) {
    const Index end = canonical_until(pointers, columns, row, count);
    if (end > row) put_rows(pointers, columns, values, row, end);
    row = end;
    if (row == count) break;
    const Index first = pointers[row];
    if (!make_canonical(columns.from(first), values + static_cast<std::size_t>(first) * size_of(exact), given,
                        pointers[row + 1] - first, canonical))
      throw FormatError("csr: row " + std::to_string(rows) + ": repeated columns add up to more than " +
                        std::string(name_of(given)) + " holds; convert the values to a wider type.");
    const Index whole_row[2] = {0, static_cast<Index>(canonical.columns.size())};
    put_rows(whole_row, {canonical.columns.data(), nullptr}, canonical.values.data(), 0, 1);
    ++row;
  }
}

void CsrWriter::Impl::write_attributes() {
  using Json = nlohmann::json;
  Json descriptor = {{"version", "0.1.0"},
                     {"format", "CSR"},
                     {"shape", {rows, cols}},
                     {"number_of_stored_values", nnz},
                     {"data_types",
                      {{"pointers_to_1", "int64"},
                       {"indices_1", name_of(index)},
                       {"values", name_of(narrow ? Dtype::uint8 : exact)}}}};
  const Json inner = descriptor;
  descriptor["binsparse"] = inner;  // readers differ in how deep they look for it
  const Json attributes = {{"encoding-type", "csr_matrix"},
                           {"encoding-version", "0.1.0"},
                           {"shape", {rows, cols}},
                           {"binsparse", descriptor},
                           {value_dtype_key, name_of(exact)}};
  write_group(directory, attributes.dump());
}

CsrMatrix CsrWriter::Impl::finish() {
  const std::string plain = R"({"encoding-type": "array", "encoding-version": "0.2.0"})";
  data.finish(plain);
  indices.finish(plain);
  indptr.finish(plain);
  if (cols < 0) cols = widest;
  totals.resize(static_cast<std::size_t>(cols));
  link(directory, "data", "values");
  link(directory, "indices", "indices_1");
  link(directory, "indptr", "pointers_to_1");
  write_attributes();
  for (const ColumnTotals& column : totals) {
    statistics.column_sums.push_back(column.sum);
    statistics.column_squares.push_back(column.squares);
    statistics.sum_squares += column.squares;
  }
  const CsrMatrix matrix = open_csr(directory);
  save_panels(matrix, panels_of(matrix, chooser.panel_rows()));
  save_statistics(matrix, statistics);
  return matrix;
}

CsrWriter::CsrWriter(const std::string& directory, Index cols, Dtype value_dtype, bool narrow) {
  if (!is_csr_value(value_dtype))
    throw FormatError("csr: values of " + std::string(name_of(value_dtype)) +
                      " are not supported; convert them to float32, float64 or an integer type.");
  impl_ = std::make_unique<Impl>(directory, cols, value_dtype, narrow);
}

CsrWriter::~CsrWriter() = default;

void CsrWriter::append(Index rows, const Index* pointers, const Index* columns, const void* values) {
  impl_->append(rows, pointers, {columns, nullptr}, static_cast<const std::byte*>(values));
}

void CsrWriter::append(Index rows, const Index* pointers, const std::int32_t* columns, const void* values) {
  impl_->append(rows, pointers, {nullptr, columns}, static_cast<const std::byte*>(values));
}

CsrMatrix CsrWriter::finish() { return impl_->finish(); }

}  // namespace flagstone
