#pragma once
// Points that are seen only through a few directions: x V Vᵀ, never formed.
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::cluster {

/// Since ‖x V − c‖² = ‖x − V c‖² − (‖x‖² − ‖x V‖²), the nearest centre in the subspace is the nearest of the centres
/// V c among the points as they are: no coordinates of points are kept.
struct Subspace {
  Array basis;              // d x r float64 in memory, orthonormal columns
  Array beside;             // m x 1 float64: ‖x‖² − ‖x V‖²; boxes are those of panels
  bool hold_state = false;  // D² and the nearest seed of each point are held in memory

  Index size() const { return basis.shape()[1]; }
  /// rows (c x d float64 in memory) V: c x r. 2 c d r flops.
  Array coordinates(Graph& graph, const Array& rows) const;
  /// rows := coordinates (c x r) Vᵀ.
  void points(Graph& graph, const Array& coordinates, const Array& rows) const;
  /// rows := rows V Vᵀ.
  void project(Graph& graph, const Array& rows) const { points(graph, coordinates(graph, rows), rows); }
};

}  // namespace flagstone::cluster
