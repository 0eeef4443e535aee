#pragma once
// Along an axis, one read and one write: running sums and products, differences of neighbours.
#include "flagstone/algorithms/elementwise/pass.hpp"
#include "flagstone/algorithms/elementwise/reading.hpp"
#include "flagstone/kernel/along/scan.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::along {

/// out := the running sums (products) of the pass's visited value, whose dtype is out's. Elements are added in their
/// order along the axis, in out's dtype: the next tile goes on from what the one before gave (a carry). Neither tiles
/// nor the limit nor the workers change bits. A checkpoint notes finished tiles; a later run takes the carry from the
/// result (decision 170).
void scan(Graph& graph, elementwise::Pass pass, const kernel::ScanOptions& options, const Array& out,
          elementwise::Scheme& scheme, const std::shared_ptr<Checkpoint>& checkpoint = nullptr);

/// out := A[1:] - A[:-1] along the axis, `times` over. A tile and the one after it are resident together, so each is
/// read once.
/// A checkpoint notes finished tiles.
void difference(Graph& graph, const elementwise::Operand& a, std::size_t axis, int times, const Array& out,
                const std::shared_ptr<Checkpoint>& checkpoint = nullptr);

}  // namespace flagstone::along
