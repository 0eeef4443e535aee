#include "flagstone/algorithms/labels/joined_panel.hpp"

#include <cmath>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/sparse/panels.hpp"

namespace flagstone::labels {

Cost seconds_of(double seconds, double flops, double decoded) {
  return {flops, seconds * sparse::reference_bytes_per_second, false, decoded};
}

Examples joined(const sparse::CsrOperand& x, const sparse::CsrOperand& y, bool unit, const std::string& who) {
  if (x.matrix.rows != y.matrix.rows)
    throw ShapeError(who + ": X has " + std::to_string(x.matrix.rows) + " rows and Y " + std::to_string(y.matrix.rows) +
                     "; a row of labels for each point is needed.");
  if (x.rows || y.rows || y.between)
    throw ShapeError(who + ": X or Y is a choice of rows or columns; store it first (fl.convert).");
  Examples made{x, y, unit, who};
  std::vector<CsrPanelRange> panels;
  const auto pointer = [&](Index row) {
    return row >= y.stored.rows ? y.stored.nnz : read_integers(y.stored.indptr, row, 1)[0];
  };
  Index first = x.panels.empty() ? 0 : pointer(0);
  for (const CsrPanelRange& panel : x.panels) {
    const Index last = pointer(panel.row_end);
    panels.push_back({panel.row, panel.row_end, first, last});
    first = last;
  }
  made.y->panels = std::move(panels);
  return made;
}

JoinedRow row_of(const kernel::CsrRows& rows, Index i) {
  const Index from = rows.pointers[i] - rows.pointers[0];
  JoinedRow made;
  made.values = rows.pointers[i + 1] - rows.pointers[i];
  made.columns = rows.columns + from * static_cast<Index>(size_of(rows.column_dtype));
  made.column_dtype = rows.column_dtype;
  made.numbers = reinterpret_cast<const float*>(rows.values) + from;
  return made;
}

float row_scale(const kernel::CsrRows& rows, Index i, bool unit, Index row, const std::string& who) {
  const JoinedRow one = row_of(rows, i);
  double square = 0;
  for (Index p = 0; p < one.values; ++p)
    square += static_cast<double>(one.numbers[p]) * static_cast<double>(one.numbers[p]);
  if (!std::isfinite(square)) {
    Index bad = 0, at = 0;
    one.each([&](std::uint32_t column, float value) {
      if (at++ == 0 || !std::isfinite(value)) bad = std::isfinite(value) ? bad : column;
    });
    throw NumericalError(who + ": X has NaN or Inf at row " + std::to_string(row) + ", column " + std::to_string(bad) +
                         "; finite values are needed, replace or drop them first.");
  }
  if (!unit) return 1;
  return square > 0 ? static_cast<float>(1 / std::sqrt(square)) : 0;
}

JoinedPanel::JoinedPanel(const Examples& examples, std::size_t panel)
    : x_(examples.x, examples.x.panels[panel], Dtype::float32, false), unit_(examples.unit), who_(examples.who) {
  if (examples.y) y_.emplace(*examples.y, examples.y->panels[panel], Dtype::float32, true);
}

void JoinedPanel::access(std::vector<Access>& accesses) {
  x_.access(accesses);
  if (y_) y_->access(accesses);
}

std::size_t JoinedPanel::scratch_bytes() const {
  const std::size_t labels = y_ ? y_->scratch_bytes() + static_cast<std::size_t>(y_->nnz()) * 4 : 4;
  return align_up(x_.scratch_bytes(), 64) + align_up(labels, 64) + 128;
}

Cost JoinedPanel::cost() const {
  const Index keys = y_ ? y_->nnz() : x_.rows();
  const double seconds =
      x_.convert_seconds() + (y_ ? y_->convert_seconds() : 0) + value_seconds * static_cast<double>(values() + keys);
  return seconds_of(seconds, 0, x_.decoded_bytes() + (y_ ? y_->decoded_bytes() : 0));
}

void JoinedPanel::each(std::span<const Tile> tiles, std::byte* scratch, const Use& use) const {
  const auto walk = [&](const kernel::CsrRows* y, const std::int32_t* labels) {
    x_.stream(tiles, scratch, [&](Index first, const kernel::CsrRows& rows) {
      for (Index i = 0; i < rows.rows; ++i) {
        JoinedRow one = row_of(rows, i);
        one.row = x_.row() + first + i;
        one.scale = row_scale(rows, i, unit_, one.row, who_);
        const auto own = static_cast<std::int32_t>(one.row);
        one.labels = &own, one.keys = 1;
        if (y) {
          const Index at = first + i;
          one.labels = labels + (y->pointers[at] - y->pointers[0]);
          one.keys = y->pointers[at + 1] - y->pointers[at];
        }
        use(one);
      }
    });
  };
  if (!y_) return walk(nullptr, nullptr);
  std::byte* mine = scratch + align_up(x_.scratch_bytes(), 64);
  auto* labels = reinterpret_cast<std::int32_t*>(mine + align_up(y_->scratch_bytes(), 64));
  y_->stream(tiles, mine, [&](Index, const kernel::CsrRows& rows) {
    Index at = 0;
    for (Index i = 0; i < rows.rows; ++i)
      row_of(rows, i).each([&](std::uint32_t column, float) { labels[at++] = static_cast<std::int32_t>(column); });
    walk(&rows, labels);
  });
}

}  // namespace flagstone::labels
