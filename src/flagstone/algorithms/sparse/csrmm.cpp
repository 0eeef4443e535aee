#include "flagstone/algorithms/sparse/csrmm.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/sparse/panel_task.hpp"
#include "flagstone/algorithms/sparse/stripe_sums.hpp"
#include "flagstone/algorithms/sparse/vector_cut.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::sparse {
namespace {

constexpr std::uint64_t long_vector = 64 * MiB;  // the cache holds none of it, so the order of sums costs nothing

std::string text_of(Index rows, Index cols) { return std::to_string(rows) + " x " + std::to_string(cols); }

Finish finish_of(const CsrmmOptions& options, const Array* y_in) {
  Finish finish{.alpha = options.alpha, .beta = options.beta};
  if (y_in) finish.old = *y_in;
  return finish;
}

class Product {
 public:
  Product(Graph& graph, const CsrOperand& a, const linalg::Operand& x, const Array* y_in, const linalg::Operand& y,
          const CsrmmOptions& options)
      : graph_(graph),
        a_(a),
        options_(options),
        real_(y.array.dtype()),
        inner_(a.matrix.cols),
        cols_(width_of(y)),
        panel_(bytes_of_panel()),
        stages_(graph, options.checkpoint),
        x_(graph, x, real_, {.ragged = options.gram}),
        y_(graph, stages_, y, finish_of(options, y_in), summed() ? 4096 : panel_.rows),
        cut_(cut()) {
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
      else if (options_.gram)
        gram(first, last - first);
      else if (a_.matrix.triangle)
        symmetric(first, last - first);
      else if (striped())
        striped_sums(first, last - first);
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
  bool summed() const { return options_.transposed || options_.gram || a_.matrix.triangle; }
  bool in_order() const {
    const bool over_rows = options_.gram || (options_.transposed && !a_.matrix.triangle);
    return over_rows && sums_in_order(inner_, cols_, real_, options_.gram);
  }
  bool striped() const { return in_order() && sums_by_stripes(graph_, a_); }
  PanelBytes bytes_of_panel() const {
    PanelBytes most = panel_bytes(a_, real_, graph_.device_budget() > 0);
    if (striped()) most.running += split_bytes();
    return most;
  }
  /// Bytes of the largest panel whose values are sorted by stripes.
  double split_bytes() const {
    const Stripes stripes = stripes_of(inner_, size_of(real_), graph_.workers());
    std::size_t most = 0;
    for (const CsrPanelRange& panel : a_.panels) most = std::max(most, SplitPanel(a_, panel, real_, stripes).bytes());
    return static_cast<double>(most);
  }
  /// Whether each element is one sum in the stored order. Sums of one short vector go side by side, and it is not cut;
  /// nor is AᴴA X where its sums are short.
  bool ordered() const {
    if (options_.gram) return in_order();
    return cols_ > 1 || inner_ * static_cast<Index>(size_of(real_)) > static_cast<Index>(long_vector);
  }
  Cut cut() const {
    if (options_.gram && !ordered()) return {cols_, 1, inner_, 1};
    const Cuts cuts(graph_, a_, real_, real_, cols_, panel_, x_, y_);
    if (a_.matrix.triangle || options_.gram) return cuts.symmetric(sum_bytes());
    return options_.transposed ? cuts.sums(sum_bytes()) : cuts.products(!ordered());
  }
  Dtype sum_dtype() const { return is_complex(real_) ? Dtype::complex128 : Dtype::float64; }
  /// Bytes of sums that are held of an element of Z.
  double sum_bytes() const {
    const double workers = graph_.workers(), wide = static_cast<double>(size_of(sum_dtype()));
    const auto item = static_cast<double>(size_of(real_));
    if (in_order()) return wide + (striped() ? 0 : item);  // beside all sums at once, those of a panel
    double levels = 2;
    for (auto left = static_cast<double>(a_.panels.size()); left > 1; left /= 2) ++levels;
    return wide * (levels + workers) + (item < wide ? item * workers : 0);
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
      one.ordered = ordered();
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
        const Region all{z, {{0, 0}, {to - from, x.region.box.shape[1]}}};
        one.sum = in_order() ? again(update(all)) : reduce(all);
        add_task(a, panel, std::move(one));
      }
      y_.finish(sum, from, from, to - from, col, cols);
      y_.offer();
    }
  }

  /// The same where the sums exceed a cache: panels are sorted by stripes of A's columns, and a stripe of sums stays
  /// near while a group of panels is added to it.
  void striped_sums(Index col, Index cols) {
    for (Index from = 0; from < inner_; from += cut_.depth) {
      const Index to = std::min(inner_, from + cut_.depth);
      if (y_.holds(from, to - from, col, cols)) continue;
      const CsrOperand a = cut_.stretches == 1 ? a_ : columns_between(a_, from, to);
      const Index width = x_.padded(cols);
      const Stripes stripes = stripes_of(to - from, static_cast<std::size_t>(width) * size_of(real_), graph_.workers());
      const Array z = graph_.temporary({to - from, width}, sum_dtype(), {stripes.width(), width});
      const StripedSums into{z, stripes, {}, false};
      for (Index s = 0; s < stripes.number(); ++s) zero(into.of(s));
      const auto split = [&](const CsrPanelRange& panel) {
        SplitRegion one = add_split(graph_, a, panel, real_, stripes);
        const auto x = x_.packed(one.panel->reader().row(), one.panel->reader().rows(), col, cols);
        one.t = x.region, one.temporary = x.temporary;
        return one;
      };
      add_stripe_sums(graph_, a, into, group_of(width, to - from), split);
      for (Index s = 0; s < stripes.number(); ++s)
        y_.finish(into.of(s), from + stripes.first(s), from + stripes.first(s), stripes.length(s), col, cols);
      y_.offer();
    }
  }

  /// One block of columns of Aᴴ(A X).
  void gram(Index col, Index cols) {
    if (y_.holds(0, inner_, col, cols)) return;
    const auto x = x_.packed(0, inner_, col, cols);
    const auto x_for = [&](const CsrPanelRange& panel) {
      return x.temporary && &panel == &a_.panels.back() ? last(read(x.region)) : read(x.region);
    };
    const Index width = x.region.box.shape[1];
    const auto row_bytes = static_cast<std::size_t>(width) * size_of(real_);
    const Stripes stripes = stripes_of(inner_, row_bytes, graph_.workers());
    const Index height = striped() ? stripes.width() : inner_, across = striped() ? cols : width;
    const Array z = graph_.temporary({inner_, across}, sum_dtype(), {height, across});
    const StripedSums into{z, stripes, {}, is_complex(real_)};
    if (striped()) {
      for (Index s = 0; s < stripes.number(); ++s) zero(into.of(s));
      const auto split = [&](const CsrPanelRange& panel) {
        SplitWork work;
        work.x = x_for(panel), work.ordered = ordered();
        return add_split(graph_, a_, panel, real_, stripes, work);
      };
      add_stripe_sums(graph_, a_, into, group_of(width, inner_), split);
      for (Index s = 0; s < stripes.number(); ++s)
        y_.finish(into.of(s), stripes.first(s), stripes.first(s), stripes.length(s), col, cols);
    } else {
      const Region all{z, whole(z.shape())};
      zero(all);
      for (const CsrPanelRange& panel : a_.panels) {
        PanelProduct one{.name = "csr_gram", .x = x_for(panel)};
        one.sum = in_order() ? again(update(all)) : reduce(all), one.ordered = ordered();
        add_task(a_, panel, std::move(one));
      }
      y_.finish(all, 0, 0, inner_, col, cols);
    }
    y_.offer();
  }

  /// Panels whose values are held at a time, twice.
  std::size_t group_of(Index width, Index height) const {
    const double wide = static_cast<double>(width), item = static_cast<double>(size_of(real_));
    const bool in_place = x_.direct() && !options_.gram;
    const double rows = in_place ? 0 : item * wide * static_cast<double>(panel_.rows);
    const double held = static_cast<double>(size_of(sum_dtype())) * wide * static_cast<double>(height);
    return panels_together(graph_, split_bytes() + rows, held + graph_.workers() * panel_.running);
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
    add_panel(graph_, a, panel, std::move(one));
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

void check_csrmm(const CsrOperand& a, const CsrmmOptions& options, const linalg::Operand& x, const linalg::Operand& y) {
  const Index m = options.transposed || options.gram ? a.matrix.cols : a.matrix.rows;
  const Index k = options.transposed ? a.matrix.rows : a.matrix.cols;
  const Dtype real = y.array.dtype();
  const Index columns = width_of(x);
  if (columns < 0 || height_of(x) != k || (is_complex(real) ? x.array.dtype() != real : is_complex(x.array.dtype())))
    throw ShapeError("matmul: A is " + text_of(m, k) + " and X is " + to_string(x.array.shape()) + " " +
                     std::string(name_of(x.array.dtype())) + "; " + std::to_string(k) + " rows of " +
                     (is_complex(real) ? std::string(name_of(real)) : "real numbers") + " are needed.");
  if (height_of(y) != m || width_of(y) != columns || real < Dtype::float32)
    throw ShapeError("matmul: the product is " + text_of(m, columns) + " and Y is " + to_string(y.array.shape()) + " " +
                     std::string(name_of(real)) + "; floats or complex numbers of its shape are needed.");
}

void csrmm(Graph& graph, const CsrOperand& a, const linalg::Operand& x, const Array* y_in, const linalg::Operand& y,
           const CsrmmOptions& options) {
  check_csrmm(a, options, x, y);
  if (!is_complex(y.array.dtype()) && (options.alpha.imag() != 0 || options.beta.imag() != 0))
    throw ShapeError("matmul: alpha or beta is complex and Y is real; give real ones.");
  if (height_of(y) == 0 || width_of(y) == 0) return;
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
