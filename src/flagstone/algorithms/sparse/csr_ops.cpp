#include "flagstone/algorithms/sparse/csr_ops.hpp"

#include <cstring>
#include <optional>

#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense.hpp"
#include "flagstone/storage/zarr.hpp"

namespace flagstone::sparse {
namespace {

/// One of the products; what is not part of it is empty. T = A X or given, Z += Aᵀ T.
struct Product {
  const char* name;
  Array x;      // n x b
  Array given;  // m x b: T comes from here instead of A X
  Array kept;   // m x b: T goes here
  Array sum;    // n x b float64: Z
  std::optional<Array> shift;

  Dtype real() const { return (x ? x : given).dtype(); }
  Index width() const { return (x ? x : given).shape()[1]; }
};

/// Where the parts of a task's scratch memory begin.
struct Parts {
  std::size_t reader, partial, rows, shift, sums, bytes;
};

/// One panel of one product: built once, run by the task's body.
class PanelTask {
 public:
  PanelTask(const CsrOperand& a, const CsrPanelRange& panel, const Product& product)
      : product_(product), reader_(a, panel, product.real(), false), n_(a.matrix.cols) {}
  TaskSpec spec(std::shared_ptr<PanelTask> self);

 private:
  void run(std::span<const Tile> tiles) const;
  Parts parts() const;
  Cost cost() const;
  /// T lives in scratch where the tile it comes from or goes to cannot be used as it is.
  bool rows_in_scratch() const { return (product_.kept && product_.kept.dtype() != product_.real()); }

  Product product_;
  PanelReader reader_;
  Index n_;
  int x_ = -1, given_ = -1, kept_ = -1, sum_ = -1, shift_ = -1, scratch_ = -1;
};

Box rows_of(const Array& array, const CsrPanelRange& panel) {
  return {{panel.row, 0}, {panel.row_end - panel.row, array.shape()[1]}};
}

Tile block(std::byte* data, Dtype dtype, Index rows, Index width) {
  const auto item = static_cast<Index>(size_of(dtype));
  return {data, dtype, {rows, width}, {width * item, item}, static_cast<std::size_t>(rows * width * item)};
}

TaskSpec PanelTask::spec(std::shared_ptr<PanelTask> self) {
  TaskSpec task;
  task.name = product_.name;
  auto& accesses = task.accesses;
  reader_.access(accesses);
  const auto add = [&](int& place, Access access) {
    place = static_cast<int>(accesses.size());
    accesses.push_back(std::move(access));
  };
  if (product_.x) add(x_, read({product_.x, whole(product_.x.shape())}));
  if (product_.given) add(given_, read({product_.given, rows_of(product_.given, reader_.panel())}));
  if (product_.shift) add(shift_, read({*product_.shift, whole(product_.shift->shape())}));
  if (product_.kept) add(kept_, write({product_.kept, rows_of(product_.kept, reader_.panel())}));
  if (product_.sum) add(sum_, reduce({product_.sum, whole(product_.sum.shape())}));
  add(scratch_, scratch(parts().bytes));
  task.cost = cost();
  task.body = [self = std::move(self)](std::span<const Tile> tiles) { self->run(tiles); };
  return task;
}

Parts PanelTask::parts() const {
  const auto b = static_cast<std::size_t>(product_.width()), item = size_of(product_.real());
  Parts parts{};
  std::size_t end = 0;
  const auto place = [&](std::size_t bytes) { return std::exchange(end, align_up(end + bytes, 64)); };
  parts.partial =
      place(product_.sum && product_.real() == Dtype::float32 ? static_cast<std::size_t>(n_) * b * item : 0);
  parts.rows = place(rows_in_scratch() ? static_cast<std::size_t>(reader_.rows()) * b * item : 0);
  parts.shift = place(b * sizeof(double));
  parts.sums = place(b * sizeof(double));
  parts.reader = place(reader_.scratch_bytes());
  parts.bytes = end;
  return parts;
}

void PanelTask::run(std::span<const Tile> tiles) const {
  const Index b = product_.width();
  const Dtype real = product_.real();
  const Parts at = parts();
  std::byte* memory = tiles[scratch_].data;
  auto* shift_row = reinterpret_cast<double*>(memory + at.shift);
  auto* sums = reinterpret_cast<double*>(memory + at.sums);
  const double* mu = product_.shift ? tiles[shift_].as<const double>() : nullptr;
  const bool shifts_rows = mu && product_.x;
  if (shifts_rows) kernel::shift_row(mu, tiles[x_], shift_row);
  std::fill(sums, sums + b, 0.0);

  // float32 sums stay inside one panel; float64 ones go straight into the private tile of the reduction.
  Tile partial;
  if (product_.sum && real == Dtype::float32) {
    partial = block(memory + at.partial, real, n_, b);
    std::memset(partial.data, 0, partial.bytes);
  } else if (product_.sum) {
    partial = tiles[sum_];
  }
  Tile t;
  if (given_ >= 0)
    t = tiles[given_];
  else if (rows_in_scratch())
    t = block(memory + at.rows, real, reader_.rows(), b);
  else if (kept_ >= 0)
    t = tiles[kept_];

  reader_.stream(tiles, memory + at.reader, [&](Index row, const kernel::CsrRows& rows) {
    const Tile part = t.data ? subtile(t, {{row, 0}, {rows.rows, b}}) : Tile{};
    const double* s = shifts_rows ? shift_row : nullptr;
    if (given_ >= 0)
      kernel::csr_multiply_transposed(rows, part, partial, mu ? sums : nullptr);
    else if (product_.sum)
      kernel::csr_gram(rows, tiles[x_], s, part, partial, mu ? sums : nullptr);
    else
      kernel::csr_multiply(rows, tiles[x_], s, part);
  });

  if (rows_in_scratch()) kernel::convert(t, nullptr, tiles[kept_]);
  if (product_.sum) kernel::shift_merge(real == Dtype::float32 ? partial : Tile{}, mu, sums, tiles[sum_]);
}

// Bytes that a memory-bound kernel would move in the time that ours takes: measured per value on one core (see
// README.md), expressed through the copying rate of the machine on which it was measured.
constexpr double reference_bytes_per_second = 8e9;

Cost PanelTask::cost() const {
  const double nnz = static_cast<double>(reader_.nnz()), b = static_cast<double>(product_.width());
  const double item = static_cast<double>(size_of(product_.real()));
  const double lanes = b * item / 4;  // float32 columns' worth
  double seconds = reader_.decode_seconds();
  if (product_.x) seconds += nnz * (0.5e-9 + 0.04e-9 * lanes);
  if (product_.sum) {
    seconds += nnz * (0.5e-9 + 0.065e-9 * lanes);
    seconds += static_cast<double>(n_) * b * (2 * item + 16) / reference_bytes_per_second;
  }
  const int products = (product_.x ? 1 : 0) + (product_.sum ? 1 : 0);
  return {2 * products * nnz * b, seconds * reference_bytes_per_second, product_.real() == Dtype::float64};
}

void check_block(const char* who, const char* name, const Array& array, Index rows, Index width, Dtype dtype) {
  if (array.shape() != Shape{rows, width} || array.dtype() != dtype)
    throw ShapeError(std::string(who) + ": " + name + " is " + to_string(array.shape()) + " " +
                     std::string(name_of(array.dtype())) + "; " + to_string({rows, width}) + " " +
                     std::string(name_of(dtype)) + " is needed.");
  const auto item = static_cast<Index>(size_of(dtype));
  if (array.in_memory() && width > 1 && array.store().memory_strides()[1] != item)
    throw ShapeError(std::string(who) + ": " + name + " is not row-major; copy it into C order first.");
}

void check(const CsrOperand& a, const Product& product) {
  const CsrMatrix& matrix = a.matrix;
  const Array& first = product.x ? product.x : product.given;
  const Dtype real = first.dtype();
  if (first.ndim() != 2 || (real != Dtype::float32 && real != Dtype::float64))
    throw ShapeError(std::string(product.name) + ": X is " + to_string(first.shape()) + " " +
                     std::string(name_of(real)) + "; a 2-D float32 or float64 array is needed.");
  const Index b = product.width();
  if (product.x) check_block(product.name, "X", product.x, matrix.cols, b, real);
  if (product.given) check_block(product.name, "X", product.given, matrix.rows, b, real);
  if (product.kept) {
    const Dtype kept = product.kept.dtype() == Dtype::float64 ? Dtype::float64 : Dtype::float32;
    check_block(product.name, "Y", product.kept, matrix.rows, b, kept);
  }
  if (product.sum) check_block(product.name, "the sum", product.sum, matrix.cols, b, Dtype::float64);
  if (product.shift) check_block(product.name, "the shift", *product.shift, 1, matrix.cols, Dtype::float64);
}

void add_panels(Graph& graph, const CsrOperand& a, Product product, const Array* shift) {
  if (shift) product.shift = *shift;
  check(a, product);
  if (product.width() == 0) return;
  for (const CsrPanelRange& panel : a.panels) {
    auto task = std::make_shared<PanelTask>(a, panel, product);
    graph.add(task->spec(task));
  }
}

ElementStream stream_of(const Array& array) {
  ElementStream stream{array, {}};
  if (!array.in_memory() && chunk_coding(array) == ChunkCoding::blosc) stream.encoded = encoded_chunks(array);
  return stream;
}

}  // namespace

CsrOperand prepare(const CsrMatrix& matrix) { return prepare(matrix, csr_panels(matrix)); }

CsrOperand prepare(const CsrMatrix& matrix, std::vector<CsrPanelRange> panels) {
  const Dtype values = matrix.data.dtype(), pointers = matrix.indptr.dtype();
  if (is_complex(values))
    throw FormatError("csr: " + matrix.path + ": values are " + std::string(name_of(values)) +
                      "; real ones are needed.");
  if (pointers != Dtype::int64 && pointers != Dtype::uint64 && pointers != Dtype::int32 && pointers != Dtype::uint32)
    throw FormatError("csr: " + matrix.path + ": row pointers are " + std::string(name_of(pointers)) +
                      "; int64 or int32 is needed.");
  return {matrix, std::move(panels), stream_of(matrix.data), stream_of(matrix.indices), stream_of(matrix.indptr)};
}

void multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y) {
  add_panels(graph, a, {"csr_multiply", x, {}, y, {}, {}}, shift);
}

void multiply_transposed(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y) {
  add_panels(graph, a, {"csr_multiply_transposed", {}, x, {}, y, {}}, shift);
}

void gram_multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y) {
  add_panels(graph, a, {"csr_gram", x, {}, {}, y, {}}, shift);
}

void multiply_and_project(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y,
                          const Array& z) {
  add_panels(graph, a, {"csr_multiply_and_project", x, {}, y, z, {}}, shift);
}

}  // namespace flagstone::sparse
