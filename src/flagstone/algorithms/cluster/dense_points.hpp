#pragma once
// Points of a dense array: panels of whole chunks along its rows, and pieces of those that stay in a core's cache.
#include "flagstone/algorithms/cluster/source.hpp"
#include "flagstone/algorithms/operator/dense_panels.hpp"
#include "flagstone/kernel/nearest/points.hpp"

namespace flagstone::cluster {

using DensePanels = spectral::DensePanels;

/// The array as points, rows of what is seen.
std::shared_ptr<const DensePanels> panels_of(const Array& array, bool transpose);
/// The same in panels of so many rows.
std::shared_ptr<const DensePanels> panels_in_rows(const Array& array, bool transpose, Index rows);

/// One panel in pieces: each loaded, rounded about `shift`, and given to use(first row in the panel, points).
/// NumericalError where a point holds NaN or Inf.
struct PanelPieces {
  std::shared_ptr<const DensePanels> x;
  Index panel = 0, piece = 1;  // rows at a time
  bool unit = false;
  Asked asked;

  Index rows() const { return x->length(panel); }
  Index first() const { return x->first(panel); }
  std::size_t bytes() const { return kernel::points_bytes(piece, x->side); }
  /// Points [at, at + n) of the panel into memory of so many.
  kernel::Points load(const Tile& stored, Index at, Index n, const double* shift, std::byte* memory) const;

  template <class Use>
  void each(const Tile& stored, const double* shift, std::byte* memory, Use&& use) const {
    for (Index at = 0; at < rows(); at += piece) use(at, load(stored, at, std::min(piece, rows() - at), shift, memory));
  }
};
/// Bytes of the tile of one panel.
double panel_bytes(const DensePanels& panels);
/// shift (1 x d float64 in memory) := near the mean of the points, that of the first of them. What is bad is found
/// where it is compared.
void find_shift(Graph& graph, const std::shared_ptr<const DensePanels>& points, const Asked& asked, const Array& shift);
/// Rows of a piece that has `scores` scores a row: about a MiB.
Index piece_rows(const DensePanels& x, Index scores);

std::unique_ptr<Source> make_dense_source(const PointsInput& x, std::shared_ptr<const DensePanels> panels);

}  // namespace flagstone::cluster
