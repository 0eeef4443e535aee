#pragma once
// Z += Aᵀ T of wide matrices: panels are cut into stripes of columns, whose sums stay in a processor's cache.
#include <functional>
#include <vector>

#include "flagstone/algorithms/sparse/split_panel.hpp"

namespace flagstone::sparse {

/// Whether the sums over A's rows of a product with `width` columns are added up in the order of the panels, in place
/// of a fixed tree: by shapes alone, since bits follow. `made`: of T = A X, which the same read of A makes. Then sums
/// may take more before sorting values costs less than clearing, missing and merging sums of each panel.
bool sums_in_order(Index cols, Index width, Dtype real, bool made);
/// Whether stripes do that, each in its turn; on devices, and of panels of more than 65,536 rows, all sums at once: the
/// same bits.
bool sums_by_stripes(const Graph& graph, const CsrOperand& a);

/// Where the sums go.
struct StripedSums {
  Array z;                     // n x b float64 (complex128), in boxes of its stripes
  Stripes stripes;             // of A's columns
  std::optional<Array> shift;  // 1 x n float64 mu: Z += Aᵀ T - mu (1ᵀT)
  bool conjugated = false;     // Aᴴ T

  Region of(Index stripe) const { return {z, {{stripes.first(stripe), 0}, {stripes.length(stripe), z.shape()[1]}}}; }
};
/// Panels whose values are held at a time, twice: sums pass between cache and memory once for all of them. As many as
/// have room, of `each` bytes, 8 at most; `beside`: what else is held.
std::size_t panels_together(const Graph& graph, double each, double beside);
/// Adds the sums of A's panels, a `group` of them at a time. `split` adds a panel's task (add_split), and says where
/// its rows of T are. Traffic: Z once a group, T and the sorted values once. An element is summed within a panel in T's
/// precision in the order of the rows, panels are added in float64 in their order.
void add_stripe_sums(Graph& graph, const CsrOperand& a, const StripedSums& sums, std::size_t group,
                     const std::function<SplitRegion(const CsrPanelRange&)>& split);

}  // namespace flagstone::sparse
