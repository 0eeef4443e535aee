#pragma once
// Elements by bin: how many lie in each, and in which one each lies. One read.
#include <memory>

#include "flagstone/algorithms/elementwise/pass.hpp"
#include "flagstone/algorithms/elementwise/reading.hpp"
#include "flagstone/kernel/along/bins.hpp"

namespace flagstone::along {

/// out (int64, in memory) := the elements of the pass's visited value in each bin; without `bins` those that are 0, 1,
/// ...
void count_bins(Graph& graph, elementwise::Pass pass, std::shared_ptr<const kernel::Bins> bins, const Array& out,
                elementwise::Scheme& scheme);
/// out (float64, in memory) := the sums of the pass's second visited value, float64, over the elements of the first in
/// each bin. Boxes are dealt out to tables whose number is a function of the bins, and tables are added in order:
/// neither the limit nor the workers change bits.
void weigh_bins(Graph& graph, elementwise::Pass pass, std::shared_ptr<const kernel::Bins> bins, const Array& out,
                elementwise::Scheme& scheme);
/// out, of the pass's shape := the place of each element among the edges (kernel::bin_index).
void bin_index(Graph& graph, elementwise::Pass pass, std::shared_ptr<const kernel::Bins> bins, const Array& out,
               elementwise::Scheme& scheme);

}  // namespace flagstone::along
