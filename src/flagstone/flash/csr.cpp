#include "flagstone/flash/csr.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "flagstone/algorithms/sort/external.hpp"
#include "flagstone/algorithms/sparse/csrmm.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/sort/keys.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/sparse/csr.hpp"

namespace flagstone::flash {
namespace {

Array elements(const Place& place, Index n, Dtype dtype) {
  return place.file->array({.shape = {n}, .dtype = dtype, .offset = place.offset});
}

/// Pointer `row`, as it is stored.
Index pointer_at(const CsrFiles& a, Index row) {
  const std::uint64_t item = size_of(a.index);
  std::int32_t narrow = 0;
  Index wide = 0;
  void* to = item == 4 ? static_cast<void*>(&narrow) : &wide;
  a.pointers.file->read(to, a.pointers.offset + static_cast<std::uint64_t>(row) * item, item);
  return item == 4 ? narrow : wide;
}

/// The files as a matrix. FormatError, StorageError where they do not agree.
CsrMatrix opened(const char* who, const CsrFiles& a) {
  if (a.rows < 0 || a.cols < 0)
    throw ShapeError(std::string(who) + ": A is " + std::to_string(a.rows) + " x " + std::to_string(a.cols) +
                     "; extents must not be negative.");
  for (const Place* place : {&a.values, &a.columns, &a.pointers})
    if (!place->file)
      throw ShapeError(std::string(who) + ": a file of A is a null pointer; map values, pointers and indices first.");
  CsrMatrix matrix{.rows = a.rows, .cols = a.cols, .path = a.values.file->path()};
  const Index nnz = pointer_at(a, a.rows);
  if (nnz < 0)
    throw FormatError(std::string(who) + ": '" + a.pointers.file->path() + "' ends with the pointer " +
                      std::to_string(nnz) + "; the number of values is needed.");
  matrix.indptr = elements(a.pointers, a.rows + 1, a.index);
  matrix.indices = elements(a.columns, nnz, a.index);
  matrix.data = elements(a.values, nnz, a.value);
  return csr_of(std::move(matrix));
}

void check_writable(const char* who, const char* name, const Place& place) {
  if (place.file && !place.file->writable())
    throw StorageError(std::string(who) + ": " + name + " is mapped for reading; map it with update", EROFS,
                       place.file->path());
}

/// Whether [offset, offset + bytes) of two files meet.
bool meet(const Place& a, std::uint64_t a_bytes, const Place& b, std::uint64_t b_bytes) {
  return a.file && b.file && a.file->same_file(*b.file) && a.offset < b.offset + b_bytes &&
         b.offset < a.offset + a_bytes;
}

}  // namespace

Statistics csrmm(Runtime& runtime, const CsrmmCall& call) {
  const bool transposed = call.transa != Transpose::none, columns = call.order == Order::column_major;
  check_extents("csrmm", {{"n", call.n}});
  const auto stored = [&](const char* name, MatrixArgument x, Index rows) {
    if (x.leading == 0) x.leading = std::max<Index>(1, columns ? rows : call.n);
    return StoredMatrix("csrmm", name, call.order, x, rows, call.n, call.dtype);
  };
  const CsrMatrix matrix = opened("csrmm", call.a);
  StoredMatrix b = stored("b", call.b, transposed ? call.a.rows : call.a.cols);
  const StoredMatrix c = stored("c", call.c, transposed ? call.a.cols : call.a.rows);
  if (c.lines == 0 || c.length == 0) return {};
  c.check_writable();
  if (overlap(b, c)) b = copied(runtime, b);
  Array old;
  if (call.beta != 0.0) old = copied(runtime, c).lines_as_rows();
  sparse::CsrOperand a = sparse::prepare(matrix);
  if (call.transa == Transpose::conjugate && is_complex(call.a.value))
    a = sparse::transformed(std::move(a), {.steps = {{sparse::Transform::Step::Kind::conjugate, {}}}});
  const linalg::Operand x{b.lines_as_rows(), columns}, y{c.lines_as_rows(), columns};
  const sparse::CsrmmOptions options{.transposed = transposed, .alpha = call.alpha, .beta = call.beta};
  return runtime.run([&](Graph& graph) {
    sparse::csrmm(graph, a, x, call.beta != 0.0 ? &old : nullptr, y, options);
    graph.barrier();
  });
}

namespace {

template <class I>
void expand(const CsrPanelRange& panel, Index cols, const std::string& path, std::span<const Tile> tiles,
            Index* counts) {
  const auto* pointers = tiles[0].as<const I>();
  const auto* columns = tiles[1].as<const I>();
  auto* rows = tiles[2].as<I>();
  for (Index i = panel.row; i < panel.row_end; ++i) {
    const auto begin = static_cast<Index>(pointers[i - panel.row]),
               end = static_cast<Index>(pointers[i - panel.row + 1]);
    if (begin < panel.first || begin > end || end > panel.last)  // they were in order when the panels were laid out
      throw FormatError("csrcsc: '" + path + "': the pointers around row " + std::to_string(i) +
                        " decrease or changed meanwhile; write the file again.");
    for (Index p = begin; p < end; ++p) {
      const auto column = static_cast<Index>(columns[p - panel.first]);
      if (column < 0 || column >= cols)
        throw FormatError("csrcsc: '" + path + "': the column index of stored value " + std::to_string(p) + " is " +
                          std::to_string(column) + " and there are " + std::to_string(cols) + " columns.");
      rows[p - panel.first] = static_cast<I>(i);
      ++counts[column + 1];
    }
  }
}

/// rows := the row of every entry; counts[j + 1] := entries of column j.
Statistics expand_all(Runtime& runtime, const CsrMatrix& matrix, const Array& rows, std::vector<Index>& counts) {
  const std::vector<CsrPanelRange> panels = csr_panels(matrix);
  const bool narrow = size_of(matrix.indptr.dtype()) == 4;
  const Array counted = memory_array(counts.data(), {static_cast<Index>(counts.size())});
  return runtime.run([&](Graph& graph) {
    const Charge held = graph.charge(counts.size() * sizeof(Index));
    for (const CsrPanelRange& panel : panels) {
      if (panel.first == panel.last) continue;
      const Box entries{{panel.first}, {panel.last - panel.first}};
      TaskSpec task;
      task.name = "expand_rows";
      task.accesses = {read({matrix.indptr, {{panel.row}, {panel.row_end - panel.row + 1}}}),
                       read({matrix.indices, entries}), write({rows, entries}),
                       update({counted, whole(counted.shape())})};
      task.body = [=, cols = matrix.cols, path = matrix.path, to = counts.data()](std::span<const Tile> tiles) {
        narrow ? expand<std::int32_t>(panel, cols, path, tiles, to) : expand<Index>(panel, cols, path, tiles, to);
      };
      task.cost.bytes_touched = 3.0 * static_cast<double>(panel.last - panel.first) * sizeof(Index);
      graph.add(std::move(task));
    }
    graph.barrier();
  });
}

/// Running sums of the counts, as the file holds them.
void write_pointers(const CsrFiles& t, const std::vector<Index>& counts) {
  constexpr std::size_t step = 1 << 17;
  std::vector<std::int32_t> narrow;
  for (std::size_t first = 0; first < counts.size(); first += step) {
    const std::size_t n = std::min(step, counts.size() - first), item = size_of(t.index);
    narrow.assign(counts.begin() + static_cast<std::ptrdiff_t>(first),
                  counts.begin() + static_cast<std::ptrdiff_t>(first + n));
    const void* from = item == 4 ? static_cast<const void*>(narrow.data()) : counts.data() + first;
    t.pointers.file->write(from, t.pointers.offset + first * item, n * item);
  }
}

}  // namespace

Statistics csrcsc(Runtime& runtime, const CsrcscCall& call) {
  const CsrMatrix matrix = opened("csrcsc", call.a);
  const auto nnz = static_cast<std::uint64_t>(matrix.nnz), item = static_cast<std::uint64_t>(size_of(call.a.index));
  const std::pair<Place, std::uint64_t> in[] = {{call.a.values, nnz * size_of(call.a.value)},
                                                {call.a.columns, nnz * item},
                                                {call.a.pointers, static_cast<std::uint64_t>(matrix.rows + 1) * item}};
  const std::pair<Place, std::uint64_t> out[] = {{call.t.values, nnz * size_of(call.t.value)},
                                                 {call.t.columns, nnz * item},
                                                 {call.t.pointers, static_cast<std::uint64_t>(matrix.cols + 1) * item}};
  for (const auto& [place, bytes] : out) {
    if (!place.file) throw ShapeError("csrcsc: a file of Aᵀ is a null pointer; map it with create or update.");
    check_writable("csrcsc", "a file of Aᵀ", place);
    for (const auto& [other, other_bytes] : in)
      if (meet(place, bytes, other, other_bytes))
        throw ShapeError("csrcsc: A and Aᵀ share bytes of '" + place.file->path() + "'; they must be apart.");
  }
  std::vector<Index> counts(static_cast<std::size_t>(matrix.cols + 1));
  Statistics done;
  if (nnz > 0) {
    const Place aside{FlashFile::temporary(runtime.scratch("csrcsc"), nnz * item), 0, nullptr};
    const Array rows = elements(aside, matrix.nnz, call.a.index);
    const Statistics expanded = expand_all(runtime, matrix, rows, counts);
    sort::Job job;
    job.records = matrix.nnz;
    job.order = std::make_shared<kernel::KeyOrder>(call.entry, std::vector<kernel::Key>{{call.a.index, call.column}});
    job.from = {sort::Lane::of(matrix.indices, call.column), sort::Lane::of(rows, call.row),
                sort::Lane::of(matrix.data, call.value)};
    job.to = {sort::Lane::of(elements(call.t.columns, matrix.nnz, call.t.index), call.row),
              sort::Lane::of(elements(call.t.values, matrix.nnz, call.t.value), call.value)};
    done =
        runtime.run([&](Graph& graph) { sort::run(graph, job, sort::choose(job, graph.budget(), graph.workers())); });
    done.bytes_read += expanded.bytes_read, done.bytes_written += expanded.bytes_written;
    done.seconds += expanded.seconds;
  }
  for (std::size_t j = 1; j < counts.size(); ++j) counts[j] += counts[j - 1];
  write_pointers(call.t, counts);
  return done;
}

}  // namespace flagstone::flash
