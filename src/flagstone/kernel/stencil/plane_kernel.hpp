#pragma once
// What one step does to rows of one plane: the interface of kernels.
#include <span>

#include "flagstone/kernel/stencil/points.hpp"

namespace flagstone::kernel {

/// A coefficient on the rows of a plane: element x of row y at data + y * pitch + x * step (0: broadcast).
struct CoefficientRows {
  const std::byte* data = nullptr;
  Index pitch = 0, step = 0;
};

/// Rows of one plane of one step, and what they are computed from.
struct PlaneCall {
  Index rows = 0, columns = 0;
  std::byte* to = nullptr;                   // may be `before`: that is read at the point itself only
  Index to_pitch = 0;                        // bytes from one row to the next, as all pitches
  const std::byte* const* planes = nullptr;  // plane dz of the field: planes[dz + radius[0]], at its element (0, 0)
  Index pitch = 0;
  const std::byte* before = nullptr;  // the step before that (time order 2)
  Index before_pitch = 0;
  std::span<const CoefficientRows> coefficients;
};

/// Immutable. Every operation rounds once, in the order that the kernel documents: the same bits whatever the rows,
/// their lengths, their places in memory and the instruction set.
class PlaneKernel {
 public:
  virtual ~PlaneKernel() = default;
  /// `scratch`: scratch_bytes() of memory, aligned to a cache line.
  virtual void run(const PlaneCall& call, std::byte* scratch) const = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
  virtual const Axes& radius() const = 0;
  /// Of one point.
  virtual double flops() const = 0;
};

}  // namespace flagstone::kernel
