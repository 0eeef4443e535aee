#include "flagstone/algorithms/sparse/csr_ops.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "flagstone/algorithms/sparse/gathered_rows.hpp"
#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/storage/zarr/store/encoded_chunks.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

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
  std::size_t x, rows, partial, shift, sums, reader, bytes;
};

/// One panel of one product, as the value of a call.
class PanelTask final : public CallValue {
 public:
  PanelTask(const CsrOperand& a, const CsrPanelRange& panel, const Product& product);
  /// `kept`: where its rows of T go, a box of no fewer rows; empty: to their place in Product::kept.
  TaskSpec spec(std::shared_ptr<PanelTask> self, const Region& kept);
  const PanelReader& reader() const { return reader_; }
  void run(std::span<const Tile> tiles) const;

 private:
  Kernel kernel() const {
    if (product_.given) return Kernel::csr_multiply_transposed;
    return product_.sum ? Kernel::csr_gram : Kernel::csr_multiply;
  }
  Tile load_x(std::span<const Tile> tiles, std::byte* memory) const;
  Tile load_rows(std::span<const Tile> tiles, std::byte* memory) const;
  Tile kept_rows(std::span<const Tile> tiles) const;
  Tile start_sum(std::span<const Tile> tiles, std::byte* memory) const;
  Parts parts() const;
  Cost cost() const;

  bool padded() const { return padded_ != width_; }
  bool keeps_rows() const { return product_.kept || product_.given; }
  /// T stands in scratch where the tile that it comes from or goes to is not as the kernels need it.
  bool rows_aside() const { return keeps_rows() && (padded() || (product_.kept && product_.kept.dtype() != real_)); }
  /// float32 sums stay inside one panel; float64 ones may go straight into the reduction's private tile.
  bool sums_aside() const { return product_.sum && (padded() || real_ == Dtype::float32); }

  Product product_;
  PanelReader reader_;
  Dtype real_;
  Index n_, width_;
  Index padded_;  // columns that the kernels see
  int x_ = -1, given_ = -1, kept_ = -1, sum_ = -1, shift_ = -1, scratch_ = -1;
};

Box rows_of(const Array& array, const PanelReader& panel) {
  return {{panel.row(), 0}, {panel.rows(), array.shape()[1]}};
}

Tile block(std::byte* data, Dtype dtype, Index rows, Index width) {
  const auto item = static_cast<Index>(size_of(dtype));
  return {data, dtype, {rows, width}, {width * item, item}, static_cast<std::size_t>(rows * width * item)};
}

Tile columns_of(const Tile& tile, Index width) { return subtile(tile, {{0, 0}, {tile.shape[0], width}}); }

PanelTask::PanelTask(const CsrOperand& a, const CsrPanelRange& panel, const Product& product)
    : product_(product),
      reader_(a, panel, product.real(), false),
      real_(product.real()),
      n_(a.matrix.cols),
      width_(product.width()),
      padded_(width_) {
  // Whole vectors of 64 bytes are worth a copy of X where the panel has more values than X has rows: 50 columns take
  // 13 ns a value as they are, 7 ns as 64.
  const Index lanes = 64 / static_cast<Index>(size_of(real_));
  if (width_ > lanes / 4 && reader_.nnz() > n_) padded_ = ceil_div(width_, lanes) * lanes;
}

TaskSpec PanelTask::spec(std::shared_ptr<PanelTask> self, const Region& kept) {
  TaskSpec task;
  task.name = product_.name;
  auto& accesses = task.accesses;
  reader_.access(accesses);
  const auto add = [&](int& place, Access access) {
    place = static_cast<int>(accesses.size());
    accesses.push_back(std::move(access));
  };
  if (product_.x) add(x_, read({product_.x, whole(product_.x.shape())}));
  if (product_.given) add(given_, read({product_.given, rows_of(product_.given, reader_)}));
  if (product_.shift) add(shift_, read({*product_.shift, whole(product_.shift->shape())}));
  if (product_.kept)
    add(kept_, kept.array ? again(write(kept)) : write({product_.kept, rows_of(product_.kept, reader_)}));
  if (product_.sum) add(sum_, reduce({product_.sum, whole(product_.sum.shape())}));
  add(scratch_, scratch(parts().bytes));
  task.cost = cost();
  Call& call = task.calls.emplace_back(kernel(), real_, std::initializer_list<TilePart>{});
  call.flops = task.cost.flops;
  call.value = std::move(self);
  return task;
}

Parts PanelTask::parts() const {
  const auto row_bytes = static_cast<std::size_t>(padded_) * size_of(real_);
  Parts parts{};
  std::size_t end = 0;
  const auto place = [&](std::size_t bytes) { return std::exchange(end, align_up(end + bytes, 64)); };
  parts.x = place(product_.x && padded() ? static_cast<std::size_t>(n_) * row_bytes : 0);
  parts.rows = place(rows_aside() ? static_cast<std::size_t>(reader_.rows()) * row_bytes : 0);
  parts.partial = place(sums_aside() ? static_cast<std::size_t>(n_) * row_bytes : 0);
  parts.shift = place(static_cast<std::size_t>(padded_) * sizeof(double));
  parts.sums = place(static_cast<std::size_t>(padded_) * sizeof(double));
  parts.reader = place(reader_.scratch_bytes());
  parts.bytes = end;
  return parts;
}

/// X as the kernels read it: columns beyond the width are zero.
Tile PanelTask::load_x(std::span<const Tile> tiles, std::byte* memory) const {
  if (!product_.x) return {};
  if (!padded()) return tiles[x_];
  const Tile x = block(memory, real_, n_, padded_);
  std::memset(x.data, 0, x.bytes);
  copy(tiles[x_], columns_of(x, width_));
  return x;
}

Tile PanelTask::load_rows(std::span<const Tile> tiles, std::byte* memory) const {
  if (!keeps_rows()) return {};
  if (!rows_aside()) return product_.given ? tiles[given_] : kept_rows(tiles);
  const Tile t = block(memory, real_, reader_.rows(), padded_);
  if (product_.given) {
    std::memset(t.data, 0, t.bytes);
    copy(tiles[given_], columns_of(t, width_));
  }
  return t;
}

/// Of the tile that T goes to, the rows that are this panel's.
Tile PanelTask::kept_rows(std::span<const Tile> tiles) const {
  return subtile(tiles[kept_], {{0, 0}, {reader_.rows(), width_}});
}

Tile PanelTask::start_sum(std::span<const Tile> tiles, std::byte* memory) const {
  if (!product_.sum) return {};
  if (!sums_aside()) return tiles[sum_];
  const Tile partial = block(memory, real_, n_, padded_);
  std::memset(partial.data, 0, partial.bytes);
  return partial;
}

void PanelTask::run(std::span<const Tile> tiles) const {
  const Parts at = parts();
  std::byte* memory = tiles[scratch_].data;
  const Tile x = load_x(tiles, memory + at.x), t = load_rows(tiles, memory + at.rows);
  const Tile partial = start_sum(tiles, memory + at.partial);
  const double* mu = product_.shift ? tiles[shift_].as<const double>() : nullptr;
  auto* shift_row = mu && product_.x ? reinterpret_cast<double*>(memory + at.shift) : nullptr;
  auto* sums = reinterpret_cast<double*>(memory + at.sums);
  if (shift_row) kernel::shift_row(mu, x, shift_row);
  std::fill(sums, sums + padded_, 0.0);
  double* wanted_sums = mu ? sums : nullptr;

  reader_.stream(tiles, memory + at.reader, [&](Index row, const kernel::CsrRows& rows) {
    const Tile part = t.data ? subtile(t, {{row, 0}, {rows.rows, padded_}}) : Tile{};
    if (product_.given)
      kernel::csr_multiply_transposed(rows, part, partial, wanted_sums);
    else if (product_.sum)
      kernel::csr_gram(rows, x, shift_row, part, partial, wanted_sums);
    else
      kernel::csr_multiply(rows, x, shift_row, part);
  });

  if (product_.kept && rows_aside()) kernel::convert(columns_of(t, width_), nullptr, kept_rows(tiles));
  if (product_.sum) kernel::shift_merge(sums_aside() ? columns_of(partial, width_) : Tile{}, mu, sums, tiles[sum_]);
}

void run_panel(const Call& call, std::span<const Tile> tiles) { call.value_as<PanelTask>().run(tiles); }

const bool entered =
    host_kernels().enter(Kernel::csr_multiply, {Dtype::float32, Dtype::float64}, run_panel) &&
    host_kernels().enter(Kernel::csr_multiply_transposed, {Dtype::float32, Dtype::float64}, run_panel) &&
    host_kernels().enter(Kernel::csr_gram, {Dtype::float32, Dtype::float64}, run_panel);

Cost PanelTask::cost() const {
  const double nnz = static_cast<double>(reader_.nnz()), b = static_cast<double>(width_);
  const double item = static_cast<double>(size_of(real_));
  const double lanes = static_cast<double>(padded_) * item / 4;  // float32 columns' worth
  // Beside the flops at BLAS's rate, which the rows do not reach.
  double seconds = reader_.convert_seconds();
  if (product_.x) seconds += nnz * (0.4e-9 + 0.019e-9 * lanes);
  if (product_.sum) {
    seconds += nnz * (0.6e-9 + 0.023e-9 * lanes);
    seconds += static_cast<double>(n_) * b * (2 * item + 16) / reference_bytes_per_second;
  }
  const int products = (product_.x ? 1 : 0) + (product_.sum ? 1 : 0);
  return {2 * products * nnz * b, seconds * reference_bytes_per_second, real_ == Dtype::float64,
          reader_.decoded_bytes()};
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
  std::optional<GatheredRows> gathered;
  if (product.kept && !writes_whole_chunks(a, product.kept)) gathered.emplace(graph, a, product.kept);
  for (const CsrPanelRange& panel : a.panels) {
    auto task = std::make_shared<PanelTask>(a, panel, product);
    graph.add(task->spec(task, gathered ? gathered->next() : Region{}));
    if (gathered) gathered->add(task->reader().row(), task->reader().rows());
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
  return {matrix,
          std::move(panels),
          stream_of(matrix.data),
          stream_of(matrix.indices),
          stream_of(matrix.indptr),
          nullptr,
          nullptr,
          matrix};
}

CsrOperand read_once(CsrOperand a) {
  a.values.once = a.columns.once = a.pointers.once = true;
  return a;
}

CsrOperand chosen(CsrOperand a, RowChoice rows) {
  const Index all = a.matrix.rows;
  if (a.rows || a.transform) throw ShapeError("csr: rows are chosen once, of the matrix as it is stored.");
  if (rows.before(all) != rows.count())
    throw ShapeError("csr: a chosen row lies outside the " + std::to_string(all) + " rows of " + a.matrix.path + ".");
  a.matrix.rows = rows.count();
  a.rows = std::make_shared<const RowChoice>(std::move(rows));
  std::erase_if(a.panels, [&](const CsrPanelRange& p) { return a.rows->count_in(p.row, p.row_end) == 0; });
  Index values = 0, read = 0;
  for (const CsrPanelRange& panel : a.panels) {
    values += PanelReader(a, panel, Dtype::float64, false).nnz();
    read += panel.last - panel.first;
  }
  const double share = static_cast<double>(read) / static_cast<double>(std::max<Index>(1, a.matrix.nnz));
  a.matrix.stored_bytes = static_cast<std::uint64_t>(share * static_cast<double>(a.matrix.stored_bytes));
  a.matrix.nnz = values;
  return a;
}

std::optional<CsrStatistics> ingest_statistics(const CsrOperand& a) {
  if (a.transform && !a.transform->place.empty()) return std::nullopt;
  return csr_statistics(a.stored);
}

std::optional<CsrStatistics> known_statistics(const CsrOperand& a) {
  if (a.rows || a.transform) return std::nullopt;
  return csr_statistics(a.stored);
}

CsrOperand transformed(CsrOperand a, Transform transform) {
  using Kind = Transform::Step::Kind;
  const auto rows = static_cast<std::size_t>(a.matrix.rows), cols = static_cast<std::size_t>(a.matrix.cols);
  for (const auto& step : transform.steps) {
    const bool none = step.kind == Kind::map || step.kind > Kind::power;
    const std::size_t needed = step.kind == Kind::rows ? rows : step.kind == Kind::columns ? cols : none ? 0 : 1;
    if (step.factors.size() != needed)
      throw ShapeError("csr: " + std::to_string(step.factors.size()) + " factors were given and the matrix is " +
                       to_string({a.matrix.rows, a.matrix.cols}) + "; give one for each row or column.");
  }
  transform.stored_cols = a.matrix.cols;
  if (transform.dtype) a.matrix.given = transform.dtype;
  if (!transform.place.empty()) {
    if (transform.place.size() != cols) throw ShapeError("csr: the selection does not name every column.");
    a.matrix.cols = std::count_if(transform.place.begin(), transform.place.end(), [](Index p) { return p >= 0; });
  }
  a.transform = std::make_shared<const Transform>(std::move(transform));
  return a;
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
