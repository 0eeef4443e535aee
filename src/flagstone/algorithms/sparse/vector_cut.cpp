#include "flagstone/algorithms/sparse/vector_cut.hpp"

#include <algorithm>

#include "flagstone/algorithms/sparse/panel_task.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::sparse {

PanelBytes panel_bytes(const CsrOperand& a, Dtype real, bool unpacked) {
  PanelBytes most;
  const double packed =
      static_cast<double>(a.stored.stored_bytes) / static_cast<double>(std::max<Index>(1, a.stored.nnz));
  for (const CsrPanelRange& panel : a.panels) {
    const PanelReader reader(a, panel, real, false);
    // Chunks are read whole: one more of each than the panel has.
    const double values = static_cast<double>(panel.last - panel.first) + (Index{1} << 19);
    const std::size_t beside = reader.scratch_bytes() + (unpacked ? unpacked_bytes(reader) : 0);
    most.running = std::max(most.running, values * packed + static_cast<double>(beside));
    most.rows = std::max(most.rows, reader.rows());
  }
  return most;
}

Cuts::Cuts(const Graph& graph, const CsrOperand& a, Dtype of_x, Dtype of_y, Index cols, const PanelBytes& panel,
           const PackedVectors& x, const FinishedVectors& y)
    : graph_(graph),
      a_(a),
      x_item_(static_cast<double>(size_of(of_x))),
      y_item_(static_cast<double>(size_of(of_y))),
      device_(graph.device_budget() > 0),
      inner_(a.matrix.cols),
      cols_(cols),
      panel_(panel),
      x_(x),
      y_(y) {}

/// What may be taken: the rest is for panels that are read ahead, and for what estimates leave out.
double Cuts::room() const { return 0.6 * static_cast<double>(linalg::order_budget(graph_)); }

/// The widest blocks of columns that fit beside `fixed` bytes, or the narrowest ones.
Index Cuts::widest(double each_column, double fixed) const {
  const Index least = y_.least_width(), all = x_.padded(cols_);
  const auto most = static_cast<Index>(std::max(0.0, (room() - fixed) / each_column));
  if (most >= all) return cols_;
  const Index whole = std::max(least, most / least * least);
  const Index even = ceil_div(ceil_div(cols_, ceil_div(cols_, whole)), least) * least;  // blocks of one width
  return std::min(cols_, even);
}

/// Tasks that may run at a time where panels take much of a small budget.
double Cuts::running() const {
  const double all = graph_.workers();
  return all * panel_.running + x_.staging_bytes() < room() / 2 ? all : 1;
}

/// Rows of X that are held at least: some MiB of a tile, where all of it has no room.
Index Cuts::least_depth(double row_bytes) const {
  return std::clamp<Index>(static_cast<Index>(static_cast<double>(4 * MiB) / row_bytes), std::min<Index>(1024, inner_),
                           std::max<Index>(1, inner_));
}

Cut Cuts::products(bool one_vector) const {
  const double tasks = running(), inner = static_cast<double>(inner_);
  const bool held_here = x_.direct() && !device_;  // in memory: a user's already
  const double held = held_here ? 0 : x_item_ * inner, beside = tasks * panel_.running + x_.staging_bytes();
  const double row = 2 * y_item_ * tasks * static_cast<double>(panel_.rows);  // and a chunk of Y
  const Index width = widest(held + row, beside);
  const Cut by_columns{width, ceil_div(cols_, width), inner_, 1};
  if (held_here || (one_vector && cols_ == 1)) return by_columns;
  const Index narrow = widest(row, beside + static_cast<double>(8 * MiB));
  const double each = 2 * x_item_ * static_cast<double>(x_.padded(narrow));  // of a row, and of the next stretch's
  const double left = room() - beside - static_cast<double>(narrow) * row;
  const Index least = least_depth(each), depth = std::max(least, static_cast<Index>(std::max(0.0, left) / each));
  if (depth >= inner_) return by_columns;
  const Cut by_rows{narrow, ceil_div(cols_, narrow), depth, ceil_div(inner_, depth)};
  const bool fits = static_cast<double>(width) * (held + row) + beside <= room();
  return fits && moved(by_columns) <= moved(by_rows) ? by_columns : by_rows;
}

/// Bytes of the whole product: the formulas of csrmm.hpp.
double Cuts::moved(const Cut& cut) const {
  const double x = x_item_ * static_cast<double>(cols_) * static_cast<double>(inner_);
  const double y = y_item_ * static_cast<double>(cols_) * static_cast<double>(a_.matrix.rows);
  const double passes = cut.stretches == 1 ? 1 : static_cast<double>(a_.panels.size());
  return static_cast<double>(cut.blocks) * static_cast<double>(a_.matrix.stored_bytes) + passes * x + y;
}

Cut Cuts::symmetric(double sums) const {
  const double held = sums + (x_.direct() && !device_ ? 0 : x_item_);
  const double row = 2 * x_item_ * running() * static_cast<double>(panel_.rows);
  const Index width = widest(held * static_cast<double>(inner_) + row, running() * panel_.running + x_.staging_bytes());
  return {width, ceil_div(cols_, width), inner_, 1};
}

Cut Cuts::sums(double sums) const {
  const double beside = running() * panel_.running;
  const double row = 2 * x_item_ * running() * static_cast<double>(panel_.rows);
  const Index width = widest(sums * static_cast<double>(inner_) + row, beside);
  const double left = room() - beside - static_cast<double>(width) * row, each = sums * static_cast<double>(width);
  const Index depth = std::min(inner_, std::max(least_depth(each), static_cast<Index>(std::max(0.0, left) / each)));
  const Index whole = depth == inner_ ? inner_ : std::max(y_.stripe(), depth / y_.stripe() * y_.stripe());
  const Index stretch = std::max<Index>(1, std::min(whole, inner_));
  return {width, ceil_div(cols_, width), stretch, std::max<Index>(1, ceil_div(inner_, stretch))};
}

}  // namespace flagstone::sparse
