#pragma once
// A time loop over a field: what is computed, from what, to where. No schedule.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "flagstone/algorithms/stencil/field/snapshots.hpp"
#include "flagstone/algorithms/stencil/field/step_reductions.hpp"
#include "flagstone/kernel/stencil/edges.hpp"
#include "flagstone/kernel/stencil/plane_kernel.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/storage/output/checkpoint.hpp"
#include "flagstone/storage/scratch/quota.hpp"

namespace flagstone::stencil {

class FieldStage;
class SocketCounts;
class Observers;
struct Problem;

struct Interval {
  Index first = 0, last = 0;
  bool empty() const { return last <= first; }
  Index length() const { return std::max<Index>(0, last - first); }
};

/// series[t] is added to the point's value at step t + 1, wherever that is computed.
struct Source {
  Axes point{};
  std::shared_ptr<const std::vector<std::byte>> series;  // one element a step, in the field's dtype
  std::size_t field = 0;
};

/// Of a problem that is a part of a larger one, as a rank has it: where it lies there, and what of it is its own. Its
/// snapshots and reductions are the larger one's, whose observers see the core alone.
struct Window {
  std::shared_ptr<const Problem> whole;
  Observers* observers = nullptr;  // the builder's
  Axes origin{};                   // of the part's first point, in the larger field
  Range3 core;                     // likewise
};

/// Arrays have one to three dimensions and one shape; `axes` says which of the three axes each dimension is: the last
/// one is axis 2, where elements are dense; the first one of several is axis 0, along which planes stream.
struct Problem {
  kernel::Space space;
  std::vector<std::size_t> axes;
  Dtype dtype = Dtype::float32;
  std::shared_ptr<const kernel::PlaneKernel> kernel;
  /// Of a step over several fields, one after the other: then there is no kernel, and each state is a field.
  std::vector<std::shared_ptr<const FieldStage>> stages;
  Index steps = 0;
  Index first = 0;          // of these were done by a dead process
  std::vector<Array> from;  // the field now; the step before that where it counts (time order 2)
  std::vector<Array> to;    // likewise
  std::vector<Array> coefficients;
  std::vector<Source> sources;
  std::vector<Axes> receivers;
  std::vector<std::size_t> receiver_fields;  // of each
  std::vector<Index> receiver_rows;          // of `traces`, of each; none: in order
  Array traces;                              // receivers × steps, in memory
  std::vector<Snapshot> snapshots;
  std::vector<std::shared_ptr<StepReductions>> reductions;  // of each field; null, or none: nobody asks
  std::vector<std::string> names;                           // of several fields
  bool saved = false;            // an epoch may be saved after each superstep; of planned runs, too
  double longest_superstep = 0;  // seconds, where depth is chosen; 0: any
  std::shared_ptr<Checkpoint> checkpoint;
  bool overlap = true;   // disk and processors work at once; else blocks are read, computed and written in turn
  ScratchSpace scratch;  // for what lies between supersteps and has no room in memory
  std::shared_ptr<SocketCounts> placed;           // who computes what; null: nobody asks
  std::shared_ptr<const Window> window;           // null: this is the whole field
  std::array<std::array<Index, 2>, 3> sleeves{};  // of a part: points on each side that are others'

  /// Whether what lies beyond an edge is another thing at each step; bytes of such edges, and of faces.
  bool edges_change() const;
  std::uint64_t edge_bytes() const;
  bool fields() const { return !stages.empty(); }
  /// How many steps' halo what is not the field now needs, of so many steps: fields all of it, what is read at the
  /// point itself (the step before, coefficients) one less.
  Index behind(Index depth) const { return fields() ? depth : std::max<Index>(0, depth - 1); }
  /// Of one point and step, and what a kernel needs beside it.
  double flops() const;
  std::uint64_t kernel_scratch() const;
  Index left() const { return steps - first; }
  /// What results are for, along an axis: all of it but sleeves.
  Interval core(std::size_t d) const { return {sleeves[d][0], space.shape[d] - sleeves[d][1]}; }
  double core_points() const {
    return static_cast<double>(core(0).length()) * static_cast<double>(core(1).length() * core(2).length());
  }
  /// The same and so far into sleeves.
  Interval needed(std::size_t d, Index beyond) const {
    beyond = std::max<Index>(0, beyond);
    return {std::max<Index>(0, sleeves[d][0] - beyond), space.shape[d] - std::max<Index>(0, sleeves[d][1] - beyond)};
  }
  Index row_of(std::size_t receiver) const {
    return receiver_rows.empty() ? static_cast<Index>(receiver) : receiver_rows[receiver];
  }
  std::size_t order() const { return from.size(); }
  Index item() const { return static_cast<Index>(space.item); }
  /// Of a dimension that the field has not: 0.
  Box box(const Range3& range) const;
  /// Extents of a shape of the field's dimensions along the three axes.
  Axes extents(const Shape& shape) const;
  Range3 range(const Box& box) const;
};

inline Range3 point_range(const Axes& point) { return {point, {point[0] + 1, point[1] + 1, point[2] + 1}}; }

/// Which axis each of so many dimensions is.
std::vector<std::size_t> axes_of(std::size_t ndim);

/// Axes, shape, dtype, steps and radius of a problem whose arrays are there already. ShapeError where they do not fit.
void set_field(Problem& problem, Dtype dtype, Index steps, const Shape& radius);

/// Steps of each superstep: as few supersteps as a depth allows, and balanced: they differ by one at most.
class Supersteps {
 public:
  Supersteps(Index steps, Index depth);
  Index number() const { return number_; }
  /// How many of them are one step longer: the first ones.
  Index longer() const { return steps_ % number_; }
  Index operator[](Index s) const { return steps_ / number_ + (s < longer() ? 1 : 0); }

 private:
  Index steps_, number_;
};

/// The memory of a tile that holds `box` of one of the problem's arrays, as points; `shift`: where its periodic image
/// lies.
kernel::Points points_of(const Problem& problem, const Tile& tile, const Range3& range, const Axes& shift = {});

/// Bytes of staging that a tile of this range takes beside its own, of an array that is read (written).
std::uint64_t staging_of(const Problem& problem, const Array& array, const Range3& range, bool written);

/// Adds what sources of a field add at step `step` (counted from 1) to the points of `range`, periodic images too.
void inject(const Problem& problem, Index step, const kernel::Points& points, const Range3& range,
            std::size_t field = 0);

/// Bytes that each plane (of one dimension: element) of the places between supersteps takes in memory; 0 where all of
/// it is to outlive the process.
std::uint64_t held_bytes(const Problem& problem, Index supersteps);
/// The axis along which they are divided.
inline std::size_t first_axis(const Problem& problem) { return problem.axes.front(); }

}  // namespace flagstone::stencil
