#pragma once
// Rows folded by group, one read.
#include "flagstone/algorithms/elementwise/pass.hpp"
#include "flagstone/algorithms/elementwise/reading.hpp"
#include "flagstone/kernel/along/groups.hpp"

namespace flagstone::along {

/// out := accumulators (kernel/along/groups.hpp) of the rows of the pass's visited value, row i folded into group
/// labels[i]. `out`, in memory: words x groups x the other extents. Tiles of rows fold into a few accumulators in turn,
/// each in program order, which are joined at the end: how many is a function of the shapes, so the limit and the
/// workers change no bit.
void fold_groups(Graph& graph, elementwise::Pass pass, kernel::GroupFold fold, const Array& labels, Index groups,
                 const Array& out, elementwise::Scheme& scheme);

}  // namespace flagstone::along
