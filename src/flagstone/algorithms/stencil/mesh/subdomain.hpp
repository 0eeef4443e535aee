#pragma once
// A mesh of subdomains: which part of the field is which rank's, and what it has of its neighbours'.
#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

/// Ranks along each of the three axes, numbered in C order; along one where there is one rank nothing is cut.
using Mesh = Axes;
inline Index ranks_of(const Mesh& mesh) { return mesh[0] * mesh[1] * mesh[2]; }
/// Along the first and the second dimension of the field. ShapeError: it has one dimension, or a rank would have none
/// of its points.
Mesh mesh_of(const Problem& problem, const std::array<Index, 2>& ranks);

/// Steps of a superstep for which no sleeve is wider than a neighbour's core; 0: none, 2^60: any.
Index deepest_of(const kernel::Space& space, const Mesh& mesh);
/// ShapeError, which names what works, where there are more.
void check_depth(const Problem& problem, const Mesh& mesh, Index depth);

/// The part of one rank, a value: its core is [i n/P, (i + 1) n/P) along each axis; its sub-buffer is the core with
/// sleeves, radius × depth points on each side where there is a neighbour. True edges of the field have none, nor has
/// an axis with one rank. Sleeves beyond a periodic edge hold what is on the other side: ranges there lie outside the
/// field.
class Subdomain {
 public:
  Subdomain(const kernel::Space& space, const Mesh& mesh, Index rank, Index depth);

  Index rank() const { return rank_; }
  const Range3& core() const { return core_; }
  const Range3& buffer() const { return buffer_; }
  bool sleeve(std::size_t axis, bool high) const { return neighbour(axis, high) >= 0; }
  /// The rank beyond a side, which may be this one; -1: none.
  Index neighbour(std::size_t axis, bool high) const { return neighbours_[axis][high ? 1 : 0]; }
  /// How far from here the neighbour has what lies beyond that side: a field's length where it is beyond an edge.
  Axes shift(std::size_t axis, bool high) const;
  /// What a superstep of so many steps gets from that side, in the phase of this axis: radius × steps points along it,
  /// along earlier axes the sleeves too, which have arrived by then: so corners come in two phases.
  Range3 received(std::size_t axis, bool high, Index steps) const;

 private:
  Index rank_;
  Axes shape_, radius_, at_{}, mesh_;
  Range3 core_, buffer_;
  std::array<std::array<Index, 2>, 3> neighbours_{};
};

/// Elements of one state that all ranks receive in a superstep of so many steps: Σ over ranks and their sides along z
/// of h τ (n_y/P_y) n_x, along y of h τ (n_z/P_z + sleeves) n_x.
double sleeve_elements(const kernel::Space& space, const Mesh& mesh, Index steps);

}  // namespace flagstone::stencil
