#pragma once
// Time loops whose kernel is a functor over a row of the program's own: compiled with it, no dispatch inside a row.
#include <memory>
#include <utility>

#include "flagstone/algorithms/stencil/scheme.hpp"
#include "flagstone/base/element_type.hpp"

namespace flagstone::stencil {

/// One row of a step: to[x] for x < size() of the rows around it, which may be read as far beyond both ends as the
/// radius says. A field of two dimensions has rows (dz), one of one dimension has one.
template <class T>
class Row {
 public:
  Row(const kernel::PlaneCall& call, Index y, Index reach) : call_(call), y_(y), reach_(reach) {}
  Index size() const { return call_.columns; }
  T* to() const { return reinterpret_cast<T*>(call_.to + y_ * call_.to_pitch); }
  const T* operator()(Index dz = 0, Index dy = 0) const {
    return reinterpret_cast<const T*>(call_.planes[dz + reach_] + (y_ + dy) * call_.pitch);
  }
  /// Of time order 2: the step before, which `to` may be: read at x before to[x] is written.
  const T* before() const { return reinterpret_cast<const T*>(call_.before + y_ * call_.before_pitch); }
  T coefficient(std::size_t number, Index x) const {
    const kernel::CoefficientRows& rows = call_.coefficients[number];
    return *reinterpret_cast<const T*>(rows.data + y_ * rows.pitch + x * rows.step);
  }

 private:
  const kernel::PlaneCall& call_;
  Index y_, reach_;
};

template <class T, class F>
class FunctorKernel final : public kernel::PlaneKernel {
 public:
  FunctorKernel(const Axes& radius, double flops, F row) : radius_(radius), flops_(flops), row_(std::move(row)) {}
  void run(const kernel::PlaneCall& call, std::byte*) const override {
    for (Index y = 0; y < call.rows; ++y) row_(Row<T>(call, y, radius_[0]));
  }
  const Axes& radius() const override { return radius_; }
  double flops() const override { return flops_; }

 private:
  Axes radius_;
  double flops_;
  F row_;
};

/// A loop of so many steps of `row`, which several workers call at once; `problem.from` and `to` are set (a field, or
/// now and before), coefficients, edges, sources and receivers too where there are some. Sets dtype, shape, radius (of
/// each dimension of the field) and kernel. ShapeError: no such field, other radii, T is not what the field holds.
template <class T, class F>
std::shared_ptr<const Problem> loop_of(Problem problem, Index steps, const Shape& radius, double flops, F row) {
  set_field(problem, dtype_of<T>(), steps, radius);
  problem.kernel = std::make_shared<const FunctorKernel<T, F>>(problem.space.radius, flops, std::move(row));
  return std::make_shared<const Problem>(std::move(problem));
}

}  // namespace flagstone::stencil
