#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "flagstone/base/error.hpp"
#include "flagstone/base/real_types.hpp"
#include "flagstone/storage/box/thread_pool.hpp"
#include "flagstone/storage/codec/fill_value.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/sparse/canonical_rows.hpp"
#include "flagstone/storage/sparse/chunk_appender.hpp"
#include "flagstone/storage/sparse/csr.hpp"
#include "flagstone/storage/sparse/panels.hpp"
#include "flagstone/storage/sparse/value_totals.hpp"
#include "flagstone/storage/zarr/metadata/checksum.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

constexpr Index chunk_values = Index{1} << 19;

/// Threads that add up, pack and write; a chunk waits beside those that they have at hand.
std::size_t pack_threads() { return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 2, 4); }

Dtype index_dtype(Index cols) {
  if (cols < 0) return Dtype::uint32;  // not known before the end
  if (cols <= Index{1} << 8) return Dtype::uint8;
  if (cols <= Index{1} << 16) return Dtype::uint16;
  return cols <= Index{1} << 32 ? Dtype::uint32 : Dtype::int64;
}

/// The number 1.
void one_of(Dtype dtype, std::byte* to) {
  if (dtype == Dtype::complex64 || dtype == Dtype::complex128) dtype = real_part_of(dtype);  // and no imaginary part
  visit_real_type(dtype, [&](auto sample) {
    if constexpr (std::is_arithmetic_v<decltype(sample)>) {
      const decltype(sample) one{1};
      std::memcpy(to, &one, sizeof one);
    }
  });
}

void link(const std::string& directory, const char* target, const char* name) {
  std::error_code error;
  std::filesystem::remove(directory + "/" + name, error);  // a dead writer's
  std::filesystem::create_directory_symlink(target, directory + "/" + name, error);
  if (error) throw StorageError("create: cannot make the link", error.value(), directory + "/" + name);
}

/// Buffers of chunks that were stored, for the next ones.
class Shelf {
 public:
  Buffer take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return {};
    Buffer buffer = std::move(idle_.back());
    idle_.pop_back();
    return buffer;
  }
  void give(Buffer buffer) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(buffer));
  }
  void clear() { idle_.clear(); }

 private:
  std::mutex mutex_;
  std::vector<Buffer> idle_;
};

}  // namespace

struct CsrWriter::Impl {
  Impl(const std::string& where, Index n, Dtype value, bool try_bytes, CsrLayout how)
      : directory(where),
        cols(n),
        given(value),
        exact(value == Dtype::boolean ? Dtype::uint8 : value),
        narrow(try_bytes && size_of(exact) > 1 && !is_complex(exact) && !how.pattern),
        layout(how),
        index(index_dtype(n)),
        limit(n >= 0 ? n : Index{1} << 32),
        data(where + "/data", narrow ? Dtype::uint8 : exact, chunk_values, true),
        indices(where + "/indices", index, chunk_values, true),
        indptr(where + "/indptr", Dtype::int64, chunk_values, false),
        totals(n),
        packed(pack_threads()),
        pool(pack_threads(), 1) {
    if (layout.bitpacked) indices.bitpack();
    if (!layout.pattern) return;
    one_of(exact, one);
    data.set_fill(one);
  }

  void append(Index count, const Index* pointers, ColumnsView columns, const std::byte* values);
  void check_pointers(Index count, const Index* pointers) const;
  void check_row(Index row, Index smallest, Index largest);
  void put(ColumnsView columns, const std::byte* values, Index n);
  void put_values(const std::byte* values, Index n);
  void hand_over();
  void widen();
  void put_rows(const Index* pointers, ColumnsView columns, const std::byte* values, Index row, Index end);
  void put_pointer(Index pointer);
  void end_row(Index row_values);
  void write_attributes();
  void locate_bad(const CsrMatrix& matrix);
  std::vector<std::byte> state();
  void restore(StateReader from);
  CsrMatrix finish();

  std::string directory;
  Index cols;
  Dtype given, exact;  // exact: as given, but bool as uint8
  bool narrow;         // data holds bytes so far
  CsrLayout layout;
  std::byte one[16] = {};  // of a pattern: its only value
  Dtype index;
  Index limit;  // columns are below it
  ChunkAppender data, indices, indptr;
  ValueTotals totals;
  CsrStatistics statistics;
  PanelChooser chooser;
  CanonicalRow canonical;
  Index rows = 0, nnz = 0, widest = 0, pairs = 0;
  Shelf data_shelf, indices_shelf;
  std::vector<Buffer> packed;  // one a thread
  ThreadPool pool;             // last: it ends first
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
  widest = std::max(widest, largest + 1);
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

/// Elements whose columns are checked.
void CsrWriter::Impl::put(ColumnsView columns, const std::byte* values, Index n) {
  while (n > 0) {
    if (data.room() == 0) hand_over();
    const Index part = std::min(n, data.room());
    put_values(values, part);
    store_columns(columns, part, index, indices.next());
    indices.advance(part);
    values += static_cast<std::size_t>(part) * size_of(exact);
    columns = columns.from(part);
    n -= part;
  }
}

/// Gives a pair of chunks to the pool: sums, packing and writing overlap with filling the next one.
void CsrWriter::Impl::hand_over() {
  struct Pair {
    ChunkAppender::Filled data, indices;
  };
  if (data.ends_shard() || indices.ends_shard()) pool.drain();
  const auto pair = std::make_shared<Pair>();
  pair->data = data.leave(data_shelf.take());
  pair->indices = indices.leave(indices_shelf.take());
  pool.give([this, pair, number = pairs++, dtype = narrow ? Dtype::uint8 : exact, widest = widest](std::size_t thread) {
    totals.add(number, pair->data.memory.data(), dtype, pair->indices.memory.data(), index, pair->data.elements,
               widest);
    data.store(pair->data, packed[thread]);
    indices.store(pair->indices, packed[thread]);
    data_shelf.give(std::move(pair->data.memory));
    indices_shelf.give(std::move(pair->indices.memory));
  });
}

/// At most data.room() values.
void CsrWriter::Impl::put_values(const std::byte* values, Index n) {
  if (layout.pattern && !is_filled({values, static_cast<std::size_t>(n) * size_of(exact)}, {one, size_of(exact)}))
    throw FormatError("csr: a value of rows from " + std::to_string(rows) +
                      " on is not 1, and a pattern stores none; take A.astype(bool), or another layout.");
  if (narrow && !narrow_values(values, exact, n, data.next())) widen();
  if (given == Dtype::boolean)
    std::transform(values, values + n, data.next(), [](std::byte b) { return std::byte{b != std::byte{}}; });
  else if (!narrow)
    std::memcpy(data.next(), values, static_cast<std::size_t>(n) * size_of(exact));
  data.advance(n);
}

/// A value does not fit a byte: what was written so far is written again as it was given.
void CsrWriter::Impl::widen() {
  const std::string path = directory + "/data", aside = directory + "/data.bytes";
  pool.drain();
  data_shelf.clear();
  data.finish("{}");
  std::error_code error;
  std::filesystem::rename(path, aside, error);
  if (error) throw StorageError("from_blocks: cannot set the values aside that took a byte each", error.value(), path);
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
  std::filesystem::remove_all(aside, error);
  if (error) throw StorageError("from_blocks: cannot remove the values that took a byte each", error.value(), aside);
}

/// Rows [row, end) of a block, all canonical.
void CsrWriter::Impl::put_rows(const Index* pointers, ColumnsView columns, const std::byte* values, Index row,
                               Index end) {
  const Index first = pointers[row];
  for (Index i = row; i < end; ++i)
    if (pointers[i] < pointers[i + 1]) check_row(rows + i - row, columns[pointers[i]], columns[pointers[i + 1] - 1]);
  put(columns.from(first), values + static_cast<std::size_t>(first) * size_of(exact), pointers[end] - first);
  for (Index i = row; i < end; ++i) end_row(pointers[i + 1] - pointers[i]);
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
    put_rows(whole_row, ColumnsView(canonical.columns.data()), canonical.values.data(), 0, 1);
    ++row;
  }
}

void CsrWriter::Impl::write_attributes() {
  const Shape shape = {rows, cols};
  const auto descriptor = [&] {
    Json made = Json::object({{"version", "0.1.0"},
                              {"format", "CSR"},
                              {"shape", shape},
                              {"number_of_stored_values", nnz},
                              {"data_types", Json::object({{"pointers_to_1", "int64"},
                                                           {"indices_1", name_of(index)},
                                                           {"values", name_of(narrow ? Dtype::uint8 : exact)}})}});
    if (layout.triangle) made.set("structure", is_complex(exact) ? "hermitian_lower" : "symmetric_lower");
    return made;
  };
  const Json outer = descriptor();
  outer.set("binsparse", descriptor());  // readers differ in how deep they look for it
  // AnnData knows no structure, and would take a triangle for the whole: its type is one of ours.
  const Json attributes = Json::object({{"encoding-type", layout.triangle ? "flagstone_triangle" : "csr_matrix"},
                                        {"encoding-version", "0.1.0"},
                                        {"shape", shape},
                                        {"binsparse", outer},
                                        {value_dtype_key, name_of(exact)}});
  write_group(directory, attributes.dump());
}

/// Row and column of the first NaN or Inf: by halves through the pointers.
void CsrWriter::Impl::locate_bad(const CsrMatrix& matrix) {
  const Index position = totals.bad_position();
  if (position < 0) return;
  Index row = 0, end = rows;  // pointer(row) <= position < pointer(end)
  while (end - row > 1) {
    const Index middle = row + (end - row) / 2;
    (read_integers(matrix.indptr, middle, 1)[0] <= position ? row : end) = middle;
  }
  statistics.bad_row = row;
  statistics.bad_column = read_integers(matrix.indices, position, 1)[0];
}

std::vector<std::byte> CsrWriter::Impl::state() {
  if (narrow) throw Error("csr: a writer that tries bytes first keeps no state.");
  pool.drain();
  StateWriter to;
  for (const ChunkAppender* part : {&data, &indices, &indptr}) part->save(to);
  sync_directory(directory);
  totals.save(to);
  to.put(statistics.sum_row_nnz_squared), to.put(chooser);
  to.put(rows), to.put(nnz), to.put(widest), to.put(pairs);
  return to.take();
}

void CsrWriter::Impl::restore(StateReader from) {
  for (ChunkAppender* part : {&data, &indices, &indptr}) part->restore(from);
  totals.restore(from);
  from.get(statistics.sum_row_nnz_squared), from.get(chooser);
  from.get(rows), from.get(nnz), from.get(widest), from.get(pairs);
}

CsrMatrix CsrWriter::Impl::finish() {
  const std::string plain = R"({"encoding-type": "array", "encoding-version": "0.2.0"})";
  if (data.room() < chunk_values) hand_over();
  pool.drain();
  pool.give([&](std::size_t) { data.finish(plain); });
  pool.give([&](std::size_t) { indices.finish(plain); });
  indptr.finish(plain);
  pool.drain();
  if (cols < 0) cols = widest;
  link(directory, "data", "values");
  link(directory, "indices", "indices_1");
  link(directory, "indptr", "pointers_to_1");
  write_attributes();
  totals.into(statistics, cols);
  const CsrMatrix matrix = open_csr(directory);
  stamp_metadata(directory + "/zarr.json", read_text(directory + "/zarr.json"), group_stamp(matrix.data.path()));
  locate_bad(matrix);
  save_panels(matrix, panels_of(matrix, chooser.panel_rows()));
  save_statistics(matrix, statistics);
  return matrix;
}

CsrWriter::CsrWriter(const std::string& directory, Index cols, Dtype value_dtype, bool narrow, CsrLayout layout) {
  if (!is_csr_value(value_dtype))
    throw FormatError("csr: values of " + std::string(name_of(value_dtype)) +
                      " are not supported; convert them to float32, float64, complex or an integer type.");
  impl_ = std::make_unique<Impl>(directory, cols, value_dtype, narrow, layout);
  impl_->put_pointer(0);
}

CsrWriter::CsrWriter(const std::string& directory, Index cols, Dtype value_dtype, std::span<const std::byte> state,
                     CsrLayout layout)
    : impl_(std::make_unique<Impl>(directory, cols, value_dtype, false, layout)) {
  impl_->restore(StateReader(state));
}

CsrWriter::~CsrWriter() = default;

/// Pairs of chunks: being filled, waiting, with each thread; a packed chunk a thread; twice that of the pointers.
std::uint64_t CsrWriter::memory_bytes(Index cols, Dtype value_dtype) {
  const std::uint64_t value = size_of(value_dtype), column = size_of(index_dtype(cols)), threads = pack_threads();
  return chunk_values * ((threads + 2) * (value + column) + threads * std::max(value, column) + 2 * sizeof(Index));
}

void CsrWriter::append(Index rows, const Index* pointers, const Index* columns, const void* values) {
  impl_->append(rows, pointers, ColumnsView(columns), static_cast<const std::byte*>(values));
}

void CsrWriter::append(Index rows, const Index* pointers, const std::int32_t* columns, const void* values) {
  impl_->append(rows, pointers, ColumnsView(columns), static_cast<const std::byte*>(values));
}

std::vector<std::byte> CsrWriter::state() { return impl_->state(); }

Index CsrWriter::rows() const { return impl_->rows; }

CsrMatrix CsrWriter::finish() { return impl_->finish(); }

}  // namespace flagstone
