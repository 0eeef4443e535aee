#include "flagstone/algorithms/sparse/csr_ops.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "flagstone/algorithms/sparse/gathered_rows.hpp"
#include "flagstone/algorithms/sparse/panel_task.hpp"
#include "flagstone/algorithms/sparse/stripe_sums.hpp"
#include "flagstone/algorithms/sparse/value_conversion.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/storage/sparse/panels.hpp"
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
  bool symmetric = false;
  Array moments;       // 2 x n float64
  Index kept_col = 0;  // where T's first column goes

  Index width() const { return (x ? x : given).shape()[1]; }
  Dtype real() const { return (x ? x : given).dtype(); }
  /// Whether Z's sums are added up in the order of the panels.
  bool in_order() const {
    return sum && !symmetric && sums_in_order(sum.shape()[0], width(), real(), static_cast<bool>(x));
  }
  PanelProduct of(const PanelReader& panel, const Region& kept_rows) const;
};

Box rows_of(const PanelReader& panel, Index col, Index cols) { return {{panel.row(), col}, {panel.rows(), cols}}; }

/// What it is for one panel. `kept_rows`: where its rows of T go, a box of no fewer rows; empty: to their place.
PanelProduct Product::of(const PanelReader& panel, const Region& kept_rows) const {
  PanelProduct one{name};
  one.shift = shift;
  one.symmetric = symmetric;
  if (moments) one.moments = reduce({moments, whole(moments.shape())});
  if (x) one.x = read({x, whole(x.shape())});
  if (given) one.given = read({given, rows_of(panel, 0, width())});
  if (kept) one.kept = kept_rows.array ? again(write(kept_rows)) : write({kept, rows_of(panel, kept_col, width())});
  const Region all{sum, sum ? whole(sum.shape()) : Box{}};
  if (sum) one.sum = in_order() ? again(update(all)) : reduce(all);
  return one;
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
  const Dtype real = product.real();
  if (first.ndim() != 2 || real < Dtype::float32)
    throw ShapeError(std::string(product.name) + ": X is " + to_string(first.shape()) + " " +
                     std::string(name_of(real)) + "; a 2-D array of floats or complex numbers is needed.");
  if (is_complex(real) && product.shift)
    throw ShapeError(std::string(product.name) + ": X is complex; columns are shifted in real products only.");
  const Index b = product.width();
  if (product.x) check_block(product.name, "X", product.x, matrix.cols, b, real);
  if (product.given) check_block(product.name, "X", product.given, matrix.rows, b, real);
  if (product.kept) {
    const bool wide = product.kept.dtype() == Dtype::float64;
    const Dtype kept = is_complex(real) ? real : wide ? Dtype::float64 : Dtype::float32;
    const Index all = product.kept.ndim() == 2 ? std::max(b + product.kept_col, product.kept.shape()[1]) : b;
    check_block(product.name, "Y", product.kept, matrix.rows, all, kept);
  }
  if (product.sum)
    check_block(product.name, "the sum", product.sum, matrix.cols, b,
                is_complex(real) ? Dtype::complex128 : Dtype::float64);
  if (product.shift) check_block(product.name, "the shift", *product.shift, 1, matrix.cols, Dtype::float64);
  if (product.moments) check_block(product.name, "the moments", product.moments, 2, matrix.cols, Dtype::float64);
}

/// X with columns of zeros up to whole vectors of 64 bytes, where it is worth a copy; else X.
Region padded(Graph& graph, const Array& x) {
  const Index width = x.shape()[1], lanes = 64 / static_cast<Index>(size_of(x.dtype()));
  if (width <= lanes / 4 || width % lanes == 0) return {x, whole(x.shape())};
  const Shape shape{x.shape()[0], ceil_div(width, lanes) * lanes};
  const Region made{graph.temporary(shape, x.dtype(), shape), whole(shape)};
  TaskSpec task;
  task.name = "pad";
  task.accesses = {read({x, whole(x.shape())}), again(write(made))};
  task.calls = {call::zero(x.dtype(), {1}), call::copy(x.dtype(), {0}, {1, false, false, whole(x.shape())})};
  task.cost.bytes_touched = 3.0 * static_cast<double>(count(shape)) * static_cast<double>(size_of(x.dtype()));
  graph.add(std::move(task));
  return made;
}

/// The product of a wide matrix: a panel's task makes its rows of T beside the sort of its values, stripes of Z add
/// them up.
void add_stripes(Graph& graph, const CsrOperand& a, const Product& product, std::optional<GatheredRows>& gathered) {
  const Dtype real = product.real();
  const Region x = product.x ? padded(graph, product.x) : Region{};
  const Index width = x.array ? x.box.shape[1] : product.width();
  const auto row_bytes = static_cast<std::size_t>(width) * size_of(real);
  const Stripes stripes = stripes_of(a.matrix.cols, row_bytes, graph.workers());
  double each = 0, running = 0;  // bytes of the largest panel, sorted; of what a task takes beside it
  for (const CsrPanelRange& panel : a.panels) {
    const SplitPanel split(a, panel, real, stripes);
    const auto rows = static_cast<double>(split.reader().rows());
    each = std::max(each, static_cast<double>(split.bytes()) + (x.array ? rows * static_cast<double>(row_bytes) : 0));
    running = std::max(running, static_cast<double>(split.reader().scratch_bytes()) + 16.0 * MiB);
  }
  const auto split = [&](const CsrPanelRange& panel) {
    SplitWork work{.shift = product.shift};
    if (x.array) work.x = &panel == &a.panels.back() && x.array.id() != product.x.id() ? last(read(x)) : read(x);
    const PanelReader rows(a, panel, real, false);
    const PanelProduct one = product.of(rows, gathered ? gathered->next() : Region{});
    work.kept = one.kept, work.moments = one.moments, work.given = one.given.region;
    SplitRegion made = add_split(graph, a, panel, real, stripes, work);
    if (gathered) gathered->add(rows.row(), rows.rows());
    return made;
  };
  const StripedSums sums{product.sum, stripes, product.shift, product.x && is_complex(real)};
  const std::size_t group = panels_together(graph, each, graph.workers() * running);
  graph.trust_order(true);
  add_stripe_sums(graph, a, sums, group, split);
  graph.trust_order(false);
}

void add_panels(Graph& graph, const CsrOperand& a, Product product, const Array* shift) {
  if (shift) product.shift = *shift;
  check(a, product);
  if (product.width() == 0) return;
  std::optional<GatheredRows> gathered;
  const bool all_columns = product.kept && product.width() == product.kept.shape()[1];
  if (all_columns && !writes_whole_chunks(a, product.kept)) gathered.emplace(graph, a, product.kept);
  if (product.in_order() && sums_by_stripes(graph, a)) return add_stripes(graph, a, product, gathered);
  for (const CsrPanelRange& panel : a.panels) {
    const PanelReader rows(a, panel, product.real(), false);
    add_panel(graph, a, panel, product.of(rows, gathered ? gathered->next() : Region{}));
    if (gathered) gathered->add(rows.row(), rows.rows());
  }
}

}  // namespace

ElementStream stream_of(const Array& array) {
  ElementStream stream{array, {}};
  if (!array.in_memory() && chunk_coding(array) == ChunkCoding::blosc) {
    stream.encoded = encoded_chunks(array);
    stream.fill = element_of_absent_chunks(array);
  }
  return stream;
}

CsrOperand prepare(const CsrMatrix& matrix) { return prepare(matrix, csr_panels(matrix)); }

CsrOperand prepare(const CsrMatrix& matrix, std::vector<CsrPanelRange> panels) {
  const Dtype pointers = matrix.indptr.dtype();
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
          matrix,
          std::nullopt};
}

CsrOperand read_once(CsrOperand a) {
  a.values.once = a.columns.once = a.pointers.once = true;
  return a;
}

CsrOperand chosen(CsrOperand a, RowChoice rows) {
  const Index all = a.matrix.rows;
  if (a.rows || a.transform || a.between) throw ShapeError("csr: rows are chosen once, of the matrix as it is stored.");
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

namespace {

/// Stored elements that are read together: a packed chunk, else some KiB of a plain range.
Index read_together(const CsrOperand& a) {
  constexpr Index plain = Index{1} << 15, longest = Index{1} << 21;  // longer ones are read by the range
  const auto of = [&](const ElementStream& stream) {
    const Index chunk = stream.array.chunks().empty() ? plain : std::max<Index>(1, stream.array.chunks()[0]);
    return stream.encoded || (!stream.array.in_memory() && chunk <= longest) ? chunk : plain;
  };
  return std::max(of(a.values), of(a.columns));
}

/// A panel cut into those parts whose chunks hold values of chosen rows.
void cut(const CsrOperand& a, const CsrPanelRange& panel, Index together, std::vector<CsrPanelRange>& parts) {
  std::vector<Index> rows(static_cast<std::size_t>(a.rows->count_in(panel.row, panel.row_end)));
  if (rows.empty()) return;
  a.rows->list(panel.row, panel.row_end, rows.data());
  const Index low = rows.front(), high = rows.back() + 1;
  const std::vector<Index> pointers = read_integers(a.stored.indptr, panel.row + low, high - low + 1);
  const std::size_t before = parts.size();
  for (const Index row : rows) {
    const Index first = pointers[static_cast<std::size_t>(row - low)];
    const Index last = pointers[static_cast<std::size_t>(row - low + 1)];
    if (first < panel.first || last < first || last > panel.last)
      throw FormatError("csr: " + a.matrix.path + ": the row pointers around row " + std::to_string(panel.row + row) +
                        " decrease or do not fit the stored values; the file is damaged, write or copy it again.");
    const bool open = parts.size() > before;
    if (!open || first / together > std::max(parts.back().first, parts.back().last - 1) / together + 1)
      parts.push_back({panel.row + row, panel.row + row + 1, first, last});
    else
      parts.back().row_end = panel.row + row + 1, parts.back().last = last;
  }
}

}  // namespace

CsrOperand touched(CsrOperand a) {
  if (!a.rows) return a;
  const Index together = read_together(a);
  std::vector<CsrPanelRange> parts;
  for (const CsrPanelRange& panel : a.panels) cut(a, panel, together, parts);
  a.panels = std::move(parts);
  return a;
}

CsrOperand columns_between(CsrOperand a, Index first, Index last) {
  if (first < 0 || first > last || last > a.matrix.cols)
    throw ShapeError("csr: columns " + std::to_string(first) + " to " + std::to_string(last) + " were asked for and " +
                     a.matrix.path + " has " + std::to_string(a.matrix.cols) + " columns.");
  const Index before = a.between ? a.between->first : 0;
  a.between = ColumnRange{before + first, before + last};
  a.matrix.cols = last - first;
  return a;
}

std::optional<CsrStatistics> ingest_statistics(const CsrOperand& a) {
  if (a.between) return std::nullopt;
  if (a.transform && !a.transform->place.empty()) return std::nullopt;
  return csr_statistics(a.stored);
}

std::optional<CsrStatistics> known_statistics(const CsrOperand& a) {
  if (a.rows || a.transform || a.between || is_complex(a.stored.value_dtype())) return std::nullopt;
  std::optional<CsrStatistics> statistics = csr_statistics(a.stored);
  const bool whole = statistics && static_cast<Index>(statistics->column_sums.size()) == a.stored.cols;
  return whole ? std::move(statistics) : std::nullopt;
}

CsrOperand transformed(CsrOperand a, Transform transform) {
  using Kind = Transform::Step::Kind;
  const auto rows = static_cast<std::size_t>(a.matrix.rows), cols = static_cast<std::size_t>(a.matrix.cols);
  for (const auto& step : transform.steps) {
    const bool none = step.kind == Kind::map || step.kind > Kind::power;
    const std::size_t needed = step.kind == Kind::rows      ? rows
                               : step.kind == Kind::columns ? cols
                               : step.kind == Kind::turn    ? 2
                               : none                       ? 0
                                                            : 1;
    if (step.factors.size() != needed)
      throw ShapeError("csr: " + std::to_string(step.factors.size()) + " factors were given and the matrix is " +
                       to_string({a.matrix.rows, a.matrix.cols}) + "; give one for each row or column.");
  }
  if (transform.dtype) a.matrix.given = transform.dtype;
  const Dtype given = a.matrix.value_dtype();
  if (const bool ends = ends_complex(&transform, is_complex(a.stored.data.dtype())); ends != is_complex(given))
    a.matrix.given = ends ? complex_of(size_of(given) <= 4 ? Dtype::float32 : Dtype::float64) : real_part_of(given);
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

void gram_multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y,
                   const Array& moments) {
  add_panels(graph, a, {"csr_gram", x, {}, {}, y, {}, false, moments}, shift);
}

void symmetric_multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array& y) {
  add_panels(graph, a, {"csr_symmetric", x, {}, {}, y, {}, true}, nullptr);
}

void multiply_and_project(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y,
                          const Array& z, Index col) {
  add_panels(graph, a, {.name = "csr_multiply_and_project", .x = x, .kept = y, .sum = z, .kept_col = col}, shift);
}

}  // namespace flagstone::sparse
