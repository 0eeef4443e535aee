#pragma once
// In which order a product goes through three memories: disk, host and devices. Never what a task computes.
#include "flagstone/algorithms/linalg/superblock.hpp"

namespace flagstone::linalg {

/// C in superblocks that the host's memory is shared out to; in each of them panels of the inner dimension, and in each
/// of those sub-blocks of C that a device holds. With one panel C stays on the device from its first step to its last,
/// and the host holds operands: rows of A, while columns of B pass. With more, the host holds sums of C between panels.
struct ProductOrder {
  Superblock size;                   // the host's; its boxes are what operands are read in
  Index sub_rows = 1, sub_cols = 1;  // tiles of C on a device at a time
  Index panel = 1;                   // steps of the inner dimension
  bool one_panel(Index steps) const { return panel >= steps; }
};

/// Bytes that a product of m x n x k moves to a device and back with sub-blocks of rows x cols elements, C in one
/// panel: s (m k ceil(n / cols) + k n ceil(m / rows)), s m n.
struct LinkBytes {
  double in = 0, out = 0;
};
LinkBytes link_bytes(const ProductShape& shape, double item, Index rows, Index cols);

/// The order for a host budget and the least memory of a device (0: the host alone, one sub-block, one panel).
ProductOrder choose_order(const Operand& a, const Operand& b, const Array& c, const ProductTile& tile,
                          std::uint64_t budget, std::uint64_t device_budget, int workers);

}  // namespace flagstone::linalg
