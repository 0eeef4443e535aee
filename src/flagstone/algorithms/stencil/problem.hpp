#pragma once
// A time loop over a field: what is computed, from what, to where. No schedule.
#include <memory>
#include <vector>

#include "flagstone/kernel/stencil/edges.hpp"
#include "flagstone/kernel/stencil/plane_kernel.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::stencil {

using kernel::Axes;
using kernel::Range3;

/// series[t] is added to the point's value at step t + 1, wherever that is computed.
struct Source {
  Axes point{};
  std::vector<std::byte> series;  // one element a step, in the field's dtype
};

/// Arrays have one to three dimensions and one shape; `axes` says which of the three axes each dimension is: the last
/// one is axis 2, where elements are dense; the first one of several is axis 0, along which planes stream.
struct Problem {
  kernel::Space space;
  std::vector<std::size_t> axes;
  Dtype dtype = Dtype::float32;
  std::shared_ptr<const kernel::PlaneKernel> kernel;
  Index steps = 0;
  std::vector<Array> from;  // the field now; the step before that where it counts (time order 2)
  std::vector<Array> to;    // likewise
  std::vector<Array> coefficients;
  std::vector<Source> sources;
  std::vector<Axes> receivers;
  Array traces;  // receivers × steps, in memory

  std::size_t order() const { return from.size(); }
  Index item() const { return static_cast<Index>(space.item); }
  /// Of a dimension that the field has not: 0.
  Box box(const Range3& range) const;
  /// Extents of a shape of the field's dimensions along the three axes.
  Axes extents(const Shape& shape) const;
  Range3 range(const Box& box) const;
};

/// Which axis each of so many dimensions is.
std::vector<std::size_t> axes_of(std::size_t ndim);

/// Steps of each superstep: as few as a depth allows, and balanced: they differ by one at most.
std::vector<Index> supersteps(Index steps, Index depth);

/// The memory of a tile that holds `box` of one of the problem's arrays, as points; `shift`: where its periodic image
/// lies.
kernel::Points points_of(const Problem& problem, const Tile& tile, const Range3& range, const Axes& shift = {});

/// Bytes of staging that a tile of this range takes beside its own, of an array that is read (written).
std::uint64_t staging_of(const Problem& problem, const Array& array, const Range3& range, bool written);

/// Adds what sources add at step `step` (counted from 1) to the points of `range`, periodic images too.
void inject(const Problem& problem, Index step, const kernel::Points& points, const Range3& range);

/// Where each superstep reads and writes: the operands, the results, and between them scratch that takes turns.
class States {
 public:
  States(Graph& graph, const Problem& problem, std::size_t supersteps, const Axes& cell);
  /// The field (state 0) or the step before (1) that superstep s begins with, and where it leaves it.
  const Array& in(std::size_t s, std::size_t state) const { return s == 0 ? problem_.from[state] : turn(s - 1, state); }
  const Array& out(std::size_t s, std::size_t state) const {
    return s + 1 == supersteps_ ? problem_.to[state] : turn(s, state);
  }
  bool is_result(std::size_t s) const { return s + 1 == supersteps_; }
  /// Whether it is scratch, of cells.
  bool is_turn(const Array& array) const;

 private:
  const Array& turn(std::size_t s, std::size_t state) const { return scratch_[(s % 2) * problem_.order() + state]; }
  const Problem& problem_;
  std::size_t supersteps_;
  std::vector<Array> scratch_;
};

}  // namespace flagstone::stencil
