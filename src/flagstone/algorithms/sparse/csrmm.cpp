#include "flagstone/algorithms/sparse/csrmm.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/sparse/csrmm_vectors.hpp"
#include "flagstone/algorithms/sparse/panel_task.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::sparse {
namespace {

std::string text_of(Index rows, Index cols) { return std::to_string(rows) + " x " + std::to_string(cols); }

/// Bytes that the largest panel takes in a task, beside its vectors.
struct PanelBytes {
  double running = 0;  // as stored, and decoded step by step
  Index rows = 1;      // of the longest, those that are seen
};

PanelBytes panel_bytes(const CsrOperand& a, Dtype real) {
  PanelBytes most;
  const double packed =
      static_cast<double>(a.stored.stored_bytes) / static_cast<double>(std::max<Index>(1, a.stored.nnz));
  for (const CsrPanelRange& panel : a.panels) {
    const PanelReader reader(a, panel, real, false);
    // Chunks are read whole: one more of each than the panel has.
    const double values = static_cast<double>(panel.last - panel.first) + (Index{1} << 19);
    most.running = std::max(most.running, values * packed + static_cast<double>(reader.scratch_bytes()));
    most.rows = std::max(most.rows, reader.rows());
  }
  return most;
}

/// How the vectors are cut.
struct Cut {
  Index width, blocks;     // columns
  Index depth, stretches;  // rows of X; of a transposed A its columns
};

class Product {
 public:
  Product(Graph& graph, const CsrOperand& a, const linalg::Operand& x, const Array* y_in, const linalg::Operand& y,
          const CsrmmOptions& options)
      : graph_(graph),
        a_(a),
        options_(options),
        real_(y.array.dtype()),
        inner_(a.matrix.cols),
        cols_(y.cols()),
        panel_(panel_bytes(a, real_)),
        stages_(graph, options.checkpoint),
        x_(graph, x, real_),
        y_(graph, stages_, y, y_in, options.alpha, options.beta, summed() ? 4096 : panel_.rows),
        cut_(a.matrix.triangle    ? cut_symmetric()
             : options.transposed ? cut_sums()
                                  : cut_products()) {
    if (cut_.blocks == 1 && cut_.stretches == 1) a_ = read_once(a_);
    if (options.notes)
      *options.notes = {cut_.width, cut_.blocks, cut_.depth, cut_.stretches,
                        cut_.blocks * (summed() ? cut_.stretches : 1)};
  }

  void add() {
    graph_.trust_order(true);
    for (Index block = 0; block < cut_.blocks; ++block) {
      const Index first = block * cut_.width, last = std::min(first + cut_.width, cols_);
      if (inner_ == 0 && !summed())
        zeros(first, last - first);
      else if (a_.matrix.triangle)
        symmetric(first, last - first);
      else if (options_.transposed)
        sums(first, last - first);
      else if (cut_.stretches == 1)
        products(first, last - first);
      else
        products_by_stretches(first, last - first);
    }
    graph_.trust_order(false);
  }

 private:
  /// Whether Y's elements are sums over panels.
  bool summed() const { return options_.transposed || a_.matrix.triangle; }
  double item() const { return static_cast<double>(size_of(real_)); }
  Dtype sum_dtype() const { return is_complex(real_) ? Dtype::complex128 : Dtype::float64; }
  double panels() const { return static_cast<double>(a_.panels.size()); }
  /// What may be taken: the rest is for panels that are read ahead, and for what estimates leave out.
  double room() const { return 0.6 * static_cast<double>(linalg::order_budget(graph_)); }

  /// The widest blocks of columns that fit beside `depth` rows of X, or the narrowest ones.
  Index widest(double each_column, double fixed) const {
    const Index least = y_.least_width(), all = x_.padded(cols_);
    const auto most = static_cast<Index>(std::max(0.0, (room() - fixed) / each_column));
    if (most >= all) return cols_;
    const Index whole = std::max(least, most / least * least);
    const Index even = ceil_div(ceil_div(cols_, ceil_div(cols_, whole)), least) * least;  // blocks of one width
    return std::min(cols_, even);
  }

  /// Tasks that may run at a time where panels take much of a small budget.
  double running() const {
    const double all = graph_.workers();
    return all * panel_.running + x_.staging_bytes() < room() / 2 ? all : 1;
  }

  /// Rows of X that are held at least: some MiB of a tile, where all of it has no room.
  Index least_depth(double row_bytes) const {
    return std::clamp<Index>(static_cast<Index>(static_cast<double>(4 * MiB) / row_bytes),
                             std::min<Index>(1024, inner_), std::max<Index>(1, inner_));
  }

  /// Y_i = A_i X: X is held, whole or a stretch of its rows.
  Cut cut_products() const {
    const double tasks = running(), inner = static_cast<double>(inner_);
    const double held = x_.direct() ? 0 : item() * inner, beside = tasks * panel_.running + x_.staging_bytes();
    const double row = 2 * item() * tasks * static_cast<double>(panel_.rows);  // and a chunk of Y
    const Index width = widest(held + row, beside);
    const Cut by_columns{width, ceil_div(cols_, width), inner_, 1};
    if (x_.direct() || cols_ == 1) return by_columns;  // one vector: its sums go side by side, at the same bits
    const Index narrow = widest(row, beside + static_cast<double>(8 * MiB));
    const double each = 2 * item() * static_cast<double>(x_.padded(narrow));  // of a row, and of the next stretch's
    const double left = room() - beside - static_cast<double>(narrow) * row;
    const Index least = least_depth(each), depth = std::max(least, static_cast<Index>(std::max(0.0, left) / each));
    if (depth >= inner_) return by_columns;
    const Cut by_rows{narrow, ceil_div(cols_, narrow), depth, ceil_div(inner_, depth)};
    const bool fits = static_cast<double>(width) * (held + row) + beside <= room();
    return fits && moved(by_columns) <= moved(by_rows) ? by_columns : by_rows;
  }

  /// Bytes of the whole product: the formulas of csrmm.hpp.
  double moved(const Cut& cut) const {
    const double x = item() * static_cast<double>(cols_) * static_cast<double>(inner_);
    const double y = item() * static_cast<double>(cols_) * static_cast<double>(a_.matrix.rows);
    const double passes = cut.stretches == 1 ? 1 : panels();
    return static_cast<double>(cut.blocks) * static_cast<double>(a_.matrix.stored_bytes) + passes * x + y;
  }

  /// Bytes of sums that are held of an element of Z.
  double sum_bytes() const {
    double levels = 2;
    for (double left = panels(); left > 1; left /= 2) ++levels;
    const double workers = graph_.workers(), wide = static_cast<double>(size_of(sum_dtype()));
    return wide * (levels + workers) + (item() < wide ? item() * workers : 0);
  }

  /// A triangle's panels touch all of X and Z: both are held, for blocks of columns.
  Cut cut_symmetric() const {
    const double held = sum_bytes() + (x_.direct() ? 0 : item());
    const double row = 2 * item() * running() * static_cast<double>(panel_.rows);
    const Index width =
        widest(held * static_cast<double>(inner_) + row, running() * panel_.running + x_.staging_bytes());
    return {width, ceil_div(cols_, width), inner_, 1};
  }

  /// Z += A_iᵀ X_i: Z is held, and a private part of it for every running panel and every level of the tree.
  Cut cut_sums() const {
    const double sums = sum_bytes();
    const double beside = running() * panel_.running;
    const double row = 2 * item() * running() * static_cast<double>(panel_.rows);
    const Index width = widest(sums * static_cast<double>(inner_) + row, beside);
    const double left = room() - beside - static_cast<double>(width) * row, each = sums * static_cast<double>(width);
    const Index depth = std::min(inner_, std::max(least_depth(each), static_cast<Index>(std::max(0.0, left) / each)));
    const Index whole = depth == inner_ ? inner_ : std::max(y_.stripe(), depth / y_.stripe() * y_.stripe());
    const Index stretch = std::max<Index>(1, std::min(whole, inner_));
    return {width, ceil_div(cols_, width), stretch, std::max<Index>(1, ceil_div(inner_, stretch))};
  }

  /// One block of columns of A X, X whole.
  void products(Index col, Index cols) {
    std::vector<const CsrPanelRange*> open;
    for (const CsrPanelRange& panel : a_.panels) {
      const PanelReader rows(a_, panel, real_, false);
      if (!y_.holds(rows.row(), rows.rows(), col, cols)) open.push_back(&panel);
    }
    if (open.empty()) return;
    const auto x = x_.packed(0, inner_, col, cols);
    const Index width = x.region.box.shape[1];
    for (const CsrPanelRange* panel : open) {
      const PanelReader rows(a_, *panel, real_, false);
      PanelProduct one{.name = "csr_multiply"};
      one.x = x.temporary && panel == open.back() ? last(read(x.region)) : read(x.region);
      one.ordered = cols_ > 1;  // the sums of one vector, which is never cut, go side by side
      const Access direct = y_.direct(rows.row(), rows.rows(), col, width, cols);
      const Region aside = direct.region.array ? Region{} : rows_aside(width);
      one.kept = direct.region.array ? direct : again(write(aside));
      add_task(a_, *panel, std::move(one));
      y_.finish(aside, rows.row(), rows.row(), rows.rows(), col, cols);
      y_.offer();
    }
  }

  /// The same with X in stretches of its rows: each panel's rows of Y go on from stretch to stretch.
  void products_by_stretches(Index col, Index cols) {
    for (const CsrPanelRange& panel : a_.panels) {
      const PanelReader rows(a_, panel, real_, false);
      if (y_.holds(rows.row(), rows.rows(), col, cols)) continue;
      const Region aside = rows_aside(x_.padded(cols));
      for (Index from = 0; from < inner_; from += cut_.depth) {
        const Index to = std::min(inner_, from + cut_.depth);
        const auto x = x_.packed(from, to - from, col, cols);
        PanelProduct one{
            .name = "csr_multiply", .x = x.temporary ? last(read(x.region)) : read(x.region), .ordered = true};
        one.kept = again(from == 0 ? write(aside) : update(aside));
        add_task(columns_between(a_, from, to), panel, std::move(one));
      }
      y_.finish(aside, rows.row(), rows.row(), rows.rows(), col, cols);
      y_.offer();
    }
  }

  /// One block of columns of Aᵀ X, in stretches of A's columns.
  void sums(Index col, Index cols) {
    for (Index from = 0; from < inner_; from += cut_.depth) {
      const Index to = std::min(inner_, from + cut_.depth);
      if (y_.holds(from, to - from, col, cols)) continue;
      const Index width = x_.padded(cols);
      const Array z = graph_.temporary({to - from, width}, sum_dtype(), {to - from, width});
      const Region sum{z, whole(z.shape())};
      const CsrOperand a = cut_.stretches == 1 ? a_ : columns_between(a_, from, to);
      zero(sum);
      for (const CsrPanelRange& panel : a.panels) {
        const PanelReader rows(a, panel, real_, false);
        const auto x = x_.packed(rows.row(), rows.rows(), col, cols);
        PanelProduct one{.name = "csr_multiply_transposed"};
        one.given = x.temporary ? last(read(x.region)) : read(x.region);
        one.sum = reduce({z, {{0, 0}, {to - from, x.region.box.shape[1]}}});
        add_task(a, panel, std::move(one));
      }
      y_.finish(sum, from, from, to - from, col, cols);
      y_.offer();
    }
  }

  /// One block of columns of A X of a triangle.
  void symmetric(Index col, Index cols) {
    if (y_.holds(0, inner_, col, cols)) return;
    const auto x = x_.packed(0, inner_, col, cols);
    const Index width = x.region.box.shape[1];
    const Array z = graph_.temporary({inner_, width}, sum_dtype(), {inner_, width});
    const Region sum{z, whole(z.shape())};
    zero(sum);
    for (const CsrPanelRange& panel : a_.panels) {
      PanelProduct one{.name = "csr_symmetric", .symmetric = true};
      one.x = x.temporary && &panel == &a_.panels.back() ? last(read(x.region)) : read(x.region);
      one.sum = reduce(sum);
      add_task(a_, panel, std::move(one));
    }
    y_.finish(sum, 0, 0, inner_, col, cols);
    y_.offer();
  }

  /// A has no columns: Y = beta Y.
  void zeros(Index col, Index cols) {
    for (Index row = 0; row < a_.matrix.rows; row += panel_.rows) {
      const Region none = rows_aside(cols);
      zero(none);
      y_.finish(none, row, row, std::min(panel_.rows, a_.matrix.rows - row), col, cols);
    }
  }

  void zero(const Region& region) {
    TaskSpec task;
    task.name = "zero";
    task.accesses = {again(write(region))};
    task.calls = {call::zero(region.array.dtype(), {0})};
    graph_.add(std::move(task));
  }

  /// A panel's rows of Y before they are scaled, added and cut into chunks.
  Region rows_aside(Index width) {
    const Array tile = graph_.temporary({panel_.rows, width}, real_, {panel_.rows, width});
    return {tile, whole(tile.shape())};
  }

  void add_task(const CsrOperand& a, const CsrPanelRange& panel, PanelProduct one) {
    auto task = std::make_shared<PanelTask>(a, panel, std::move(one));
    graph_.add(task->spec(task));
  }

  Graph& graph_;
  CsrOperand a_;
  const CsrmmOptions& options_;
  Dtype real_;
  Index inner_, cols_;
  PanelBytes panel_;
  Stages stages_;
  PackedVectors x_;
  FinishedVectors y_;
  Cut cut_;
};

}  // namespace

std::string CsrmmNotes::text() const {
  std::string told;
  if (blocks > 1)
    told = std::to_string(blocks) + " blocks of " + std::to_string(width) + " columns, A is read for each";
  if (stretches > 1)
    told += (told.empty() ? "" : "; ") + std::to_string(stretches) + " stretches of " + std::to_string(depth) +
            " rows, the others have no room";
  return told;
}

void check_csrmm(const CsrOperand& a, bool transposed, const linalg::Operand& x, const linalg::Operand& y) {
  const Index m = transposed ? a.matrix.cols : a.matrix.rows, k = transposed ? a.matrix.rows : a.matrix.cols;
  const Dtype real = y.array.dtype();
  if (x.array.ndim() != 2 || x.rows() != k ||
      (is_complex(real) ? x.array.dtype() != real : is_complex(x.array.dtype())))
    throw ShapeError("matmul: A is " + text_of(m, k) + " and X is " + to_string(x.array.shape()) + " " +
                     std::string(name_of(x.array.dtype())) + "; " + std::to_string(k) + " rows of " +
                     (is_complex(real) ? std::string(name_of(real)) : "real numbers") + " are needed.");
  if (y.array.ndim() != 2 || y.rows() != m || y.cols() != x.cols() || real < Dtype::float32)
    throw ShapeError("matmul: the product is " + text_of(m, x.cols()) + " and Y is " + to_string(y.array.shape()) +
                     " " + std::string(name_of(real)) + "; floats or complex numbers of its shape are needed.");
}

void csrmm(Graph& graph, const CsrOperand& a, const linalg::Operand& x, const Array* y_in, const linalg::Operand& y,
           const CsrmmOptions& options) {
  check_csrmm(a, options.transposed, x, y);
  if (!is_complex(y.array.dtype()) && (options.alpha.imag() != 0 || options.beta.imag() != 0))
    throw ShapeError("matmul: alpha or beta is complex and Y is real; give real ones.");
  if (y.rows() == 0 || y.cols() == 0) return;
  Product(graph, a, x, options.beta != 0.0 ? y_in : nullptr, y, options).add();
}

Shape csrmm_chunks(const CsrOperand& a, bool transposed, Index cols, Dtype dtype) {
  const Index width = std::clamp<Index>(cols, 1, 256), m = transposed ? a.matrix.cols : a.matrix.rows;
  const Index most = std::max<Index>(1, static_cast<Index>(4 * MiB / size_of(dtype)) / width);
  Index rows = transposed || a.rows ? Index{1} << 14 : a.panel_rows();
  while (rows > most && rows % 2 == 0) rows /= 2;
  return {std::max<Index>(1, std::min(rows, m)), width};
}

}  // namespace flagstone::sparse
