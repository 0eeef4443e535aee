#pragma once
// Aᵀ X of wide matrices: panels are cut into stripes of columns, whose sums stay in a processor's cache.
#include <algorithm>
#include <memory>
#include <vector>

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
  /// Sorts the decoded rows into `to`; `scratch`: of the reader.
  void fill(std::span<const Tile> tiles, std::byte* scratch, std::byte* to) const;
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

/// A panel on its way: its values, sorted by a task that was added, and the rows of X that they meet.
struct SplitRegion {
  std::shared_ptr<const SplitPanel> panel;
  Region values;
  Region x;
  bool temporary = false;  // x is needed by nobody else
};
/// Adds the task that decodes a panel and sorts its values.
SplitRegion add_split(Graph& graph, const CsrOperand& a, const CsrPanelRange& panel, Dtype real,
                      const Stripes& stripes);
/// Z[stripe] += A_iᵀ X_i for each of the panels in turn, each summed in X's precision first. `ends`: no stripe follows,
/// the panels are done with. Traffic: Z's stripe once for all panels, X and the values of the stripe once.
void add_stripe_sum(Graph& graph, const std::vector<SplitRegion>& panels, const Stripes& stripes, Index stripe,
                    const Region& z, bool ends);

}  // namespace flagstone::sparse
