#pragma once
// A panel whose values are sorted by stripes of columns, and the rows of T that they meet: given, or made beside it.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "flagstone/algorithms/sparse/panel_reader.hpp"

namespace flagstone::sparse {

/// Columns of a matrix, 2^shift to a stripe.
struct Stripes {
  Index cols = 0;
  int shift = 0;

  Index width() const { return Index{1} << shift; }
  Index number() const { return (cols + width() - 1) / width(); }
  Index first(Index stripe) const { return stripe * width(); }
  Index length(Index stripe) const { return std::min(width(), cols - first(stripe)); }
};
/// Of sums that take `row_bytes` a column: 1 MiB at most, half of what is common as a second-level cache, 65,536
/// columns at most, and some stripes for each worker. No bits depend on them.
Stripes stripes_of(Index cols, std::size_t row_bytes, int workers);

/// One panel of 65,536 rows at most, its values sorted by stripes: how they lie in a tile of bytes.
class SplitPanel {
 public:
  SplitPanel(const CsrOperand& a, const CsrPanelRange& panel, Dtype real, const Stripes& stripes);

  const PanelReader& reader() const { return reader_; }
  std::size_t bytes() const { return records_ + stored() * record_bytes(); }
  /// Sorts the decoded rows into `to`, and shows each stretch of them to `beside`; `scratch`: of the reader.
  void fill(std::span<const Tile> tiles, std::byte* scratch, std::byte* to,
            const std::function<void(Index, const kernel::CsrRows&)>& beside) const;
  /// Calls `use(records)` for what a stripe has in `from`, in the order of the rows.
  void each(const std::byte* from, Index stripe, const std::function<void(const kernel::CsrRecords&)>& use) const;
  void access(std::vector<Access>& accesses) { reader_.access(accesses); }

 private:
  std::size_t stored() const { return static_cast<std::size_t>(reader_.stored_values()); }
  std::size_t record_bytes() const;

  PanelReader reader_;
  Stripes stripes_;
  std::size_t records_;  // where they begin, behind the ends of each stretch's stripes
};

/// What a panel's task does beside sorting; what is not wanted is empty.
struct SplitWork {
  Access x;                    // n x b, read: T = A X - 1 sᵀ goes to a tile of its own
  Region given;                // rows x b: T lies here instead
  std::optional<Array> shift;  // 1 x n float64 mu: s = muᵀX, and 1ᵀT is wanted
  Access kept;                 // rows x b, or more rows, of fewer columns: T goes there, too
  Access moments;              // 2 x n float64, reduced: sums of the columns and of their squares
  bool ordered = false;        // T has one order of sums (csr_multiply_ordered), not shifted
};

/// A panel on its way: its values, sorted by a task that was added, and the rows of T that they meet.
struct SplitRegion {
  std::shared_ptr<const SplitPanel> panel;
  Region values;
  Region t;
  Region sums = {};        // 1 x b float64: 1ᵀT
  bool temporary = false;  // t is needed by nobody else
};
/// Adds the task that decodes a panel, sorts its values and does the work. T: `given`, or a tile of panel rows x b that
/// the task makes; neither: it is the caller's to say.
SplitRegion add_split(Graph& graph, const CsrOperand& a, const CsrPanelRange& panel, Dtype real, const Stripes& stripes,
                      const SplitWork& work = {});

}  // namespace flagstone::sparse
