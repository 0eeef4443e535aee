#pragma once
// Stages of a step: fused expressions over several fields, each of which replaces some of them.
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/kernel/stencil/points.hpp"

namespace flagstone::stencil {

/// What an input of the program is: a neighbour in a field, a coefficient at the point.
struct FieldInput {
  bool coefficient = false;
  std::size_t number = 0;  // of the field, of the coefficient
  kernel::Axes offset{};
};

/// Fields are replaced all at once: a stage sees none of its own results.
class FieldStage {
 public:
  /// Input i of the program is inputs[i]; each replaced field takes a value of the program, in the fields' dtype.
  FieldStage(kernel::Program program, std::vector<std::pair<std::size_t, int>> replaced, Dtype dtype,
             std::vector<FieldInput> inputs);

  /// Where an element of a field lies, those after it along axis 2 beside it.
  using Place = std::function<std::byte*(std::size_t field, const kernel::Axes& at)>;
  /// to[f] := value on a range, of each replaced field f; buffers of `fields` and `to` do not overlap. `scratch`:
  /// scratch_bytes(), aligned to a cache line.
  void run(const kernel::Range3& range, const Place& fields, std::span<const kernel::Points> to,
           std::span<const kernel::Points> coefficients, std::byte* scratch) const;
  const std::vector<std::pair<std::size_t, int>>& replaced() const { return replaced_; }
  const kernel::Axes& radius() const { return radius_; }
  std::size_t scratch_bytes() const { return kernel::evaluate_scratch(program_); }
  /// Of one point.
  double flops() const { return program_.verbs(); }

 private:
  kernel::Program program_;
  std::vector<std::pair<std::size_t, int>> replaced_;
  Dtype dtype_;
  std::vector<FieldInput> inputs_;
  kernel::Axes radius_{};
};

}  // namespace flagstone::stencil
