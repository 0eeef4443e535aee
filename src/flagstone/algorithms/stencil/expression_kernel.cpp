#include "flagstone/algorithms/stencil/expression_kernel.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {
namespace {

constexpr Index piece = 4096;  // elements of a row that are computed at once: where a result may not land on an operand

class ExpressionKernel final : public kernel::PlaneKernel {
 public:
  ExpressionKernel(kernel::Program program, int value, Dtype dtype, std::vector<ExpressionInput> inputs)
      : program_(std::move(program)), value_(value), dtype_(dtype), inputs_(std::move(inputs)) {
    for (const ExpressionInput& input : inputs_)
      if (input.kind == ExpressionInput::Kind::neighbour)
        for (std::size_t d = 0; d < 3; ++d) radius_[d] = std::max(radius_[d], std::abs(input.offset[d]));
  }

  void run(const kernel::PlaneCall& call, std::byte* scratch) const override {
    const auto item = static_cast<Index>(size_of(dtype_));
    std::byte* const row = scratch + align_up(kernel::evaluate_scratch(program_), 64);
    std::vector<Tile> inputs(inputs_.size());
    for (Index y = 0; y < call.rows; ++y)
      for (Index x = 0; x < call.columns; x += piece) {
        const Index n = std::min(piece, call.columns - x);
        for (std::size_t i = 0; i < inputs_.size(); ++i) inputs[i] = input(call, inputs_[i], y, x, n);
        const kernel::StoreTarget store{value_, {row, dtype_, {n}, {item}, static_cast<std::size_t>(n * item)}};
        kernel::evaluate(program_, {n}, inputs, {&store, 1}, {}, scratch);
        std::memcpy(call.to + y * call.to_pitch + x * item, row, static_cast<std::size_t>(n * item));
      }
  }

  std::size_t scratch_bytes() const override {
    return align_up(kernel::evaluate_scratch(program_), 64) + piece * size_of(dtype_);
  }
  const kernel::Axes& radius() const override { return radius_; }
  double flops() const override { return program_.verbs(); }

 private:
  Tile input(const kernel::PlaneCall& call, const ExpressionInput& input, Index y, Index x, Index n) const {
    const auto item = static_cast<Index>(size_of(dtype_));
    const auto tile = [&](const std::byte* from, Index step) {
      return Tile{const_cast<std::byte*>(from), dtype_, {n}, {step}, static_cast<std::size_t>(n * item)};
    };
    if (input.kind == ExpressionInput::Kind::before) return tile(call.before + y * call.before_pitch + x * item, item);
    if (input.kind == ExpressionInput::Kind::coefficient) {
      const kernel::CoefficientRows& rows = call.coefficients[input.coefficient];
      return tile(rows.data + y * rows.pitch + x * rows.step, rows.step);
    }
    const auto& [dz, dy, dx] = input.offset;
    return tile(call.planes[dz + radius_[0]] + (y + dy) * call.pitch + (x + dx) * item, item);
  }

  kernel::Program program_;
  int value_;
  Dtype dtype_;
  std::vector<ExpressionInput> inputs_;
  kernel::Axes radius_{};
};

}  // namespace

std::unique_ptr<kernel::PlaneKernel> expression_kernel(kernel::Program program, int value, Dtype dtype,
                                                       std::vector<ExpressionInput> inputs) {
  return std::make_unique<ExpressionKernel>(std::move(program), value, dtype, std::move(inputs));
}

}  // namespace flagstone::stencil
