#pragma once
// Stages of a step over several fields, each of which replaces some of them: what computes a stage's rows.
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/kernel/stencil/compiled_rows.hpp"
#include "flagstone/kernel/stencil/points.hpp"

namespace flagstone::stencil {

/// Which field takes which value that a stage computes.
using Replaced = std::vector<std::pair<std::size_t, int>>;

/// Fields are replaced all at once: a stage sees none of its own results.
class FieldStage {
 public:
  FieldStage(Replaced replaced, const kernel::Axes& radius, double flops)
      : replaced_(std::move(replaced)), radius_(radius), flops_(flops) {}
  virtual ~FieldStage() = default;

  /// Where an element of a field lies, those after it along axis 2 beside it.
  using Place = std::function<std::byte*(std::size_t field, const kernel::Axes& at)>;
  /// to[f] := value on a range, of each replaced field f; buffers of `fields` and `to` do not overlap. `scratch`:
  /// scratch_bytes(), aligned to a cache line.
  virtual void run(const kernel::Range3& range, const Place& fields, std::span<const kernel::Points> to,
                   std::span<const kernel::Points> coefficients, std::byte* scratch) const = 0;
  virtual std::size_t scratch_bytes() const = 0;
  const Replaced& replaced() const { return replaced_; }
  const kernel::Axes& radius() const { return radius_; }
  /// Of one point.
  double flops() const { return flops_; }

 private:
  Replaced replaced_;
  kernel::Axes radius_;
  double flops_;
};

/// What an input of a stage's program is: a neighbour in a field, a coefficient at the point.
struct FieldInput {
  bool coefficient = false;
  std::size_t number = 0;  // of the field, of the coefficient
  kernel::Axes offset{};
};

/// A fused expression: input i of the program is inputs[i]; values are in the fields' dtype.
std::shared_ptr<const FieldStage> expression_stage(const kernel::Program& program, Replaced replaced, Dtype dtype,
                                                   std::vector<FieldInput> inputs);
/// Machine code: value m of the loop is its m-th result. No row is of a step before.
std::shared_ptr<const FieldStage> loop_stage(kernel::CompiledLoop loop, Replaced replaced, Dtype dtype,
                                             const kernel::Axes& radius, double flops);

}  // namespace flagstone::stencil
