#pragma once
// What lies beyond the edges of a field: ghosts, made of a rule for each axis and side.
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "flagstone/kernel/stencil/points.hpp"

namespace flagstone::kernel {

/// neumann: ghost -j is u[j-1], no flux through the cell's face (NumPy's symmetric); mirror: ghost -j is u[j], no slope
/// at the node (NumPy's reflect).
enum class Edge : std::uint8_t { fixed, periodic, neumann, mirror };
Edge edge_from_name(std::string_view name);

struct EdgeRule {
  Edge edge = Edge::fixed;
  std::array<std::byte, 16> value{};  // of fixed: one element
  // In its place: an element for each step; or one for each point of the side, in C order.
  std::shared_ptr<const std::vector<std::byte>> series, face;
};

/// A field of three axes, how far one step reaches along each, and its edges (low, high).
struct Space {
  Axes shape{1, 1, 1};
  Axes radius{};
  std::array<std::array<EdgeRule, 2>, 3> edges{};
  std::size_t item = 4;
  Index step = 0;  // how many are done where ghosts are filled: which element of a series

  Range3 whole() const { return {{0, 0, 0}, shape}; }
  bool periodic(std::size_t d) const { return edges[d][0].edge == Edge::periodic; }
};

/// The point whose value a point beyond the edge has; `low` or `high`: the fixed value of that side. Where the axis is
/// shorter than the reach the rules take turns, as np.pad does.
struct GhostSource {
  enum Kind : std::uint8_t { inside, low, high } kind = inside;
  Index at = 0;
};
GhostSource ghost_source(const Space& space, std::size_t axis, Index at);

/// Fills the ghosts around `valid`, where it ends at an edge of the field, as far as the radius: axis by axis, the
/// first one first, as np.pad axis by axis; so where two fixed sides meet the later axis wins. Of an axis in `open`
/// there are none: a periodic one whose range reaches beyond the edge.
void fill_ghosts(const Space& space, const Points& points, const Range3& valid, const std::array<bool, 3>& open);

/// range := what is fixed beyond a side. Where the range reaches beyond a face's own edges the face goes on by the
/// rules of these axes; where they are fixed too, as its nearest element.
void fill_side(const Space& space, std::size_t axis, bool high, const Points& points, const Range3& range);

/// n elements := the value.
void fill_elements(std::byte* to, Index n, const std::array<std::byte, 16>& value, std::size_t item);

}  // namespace flagstone::kernel
