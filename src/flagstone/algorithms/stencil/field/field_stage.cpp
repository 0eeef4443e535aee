#include "flagstone/algorithms/stencil/field/field_stage.hpp"

#include <algorithm>
#include <cstdlib>

namespace flagstone::stencil {
namespace {

kernel::Axes farthest(const std::vector<FieldInput>& inputs) {
  kernel::Axes radius{};
  for (const FieldInput& input : inputs)
    for (std::size_t d = 0; d < 3; ++d) radius[d] = std::max(radius[d], std::abs(input.offset[d]));
  return radius;
}

class ExpressionStage final : public FieldStage {
 public:
  ExpressionStage(const kernel::Program& program, Replaced replaced, Dtype dtype, std::vector<FieldInput> inputs)
      : FieldStage(std::move(replaced), farthest(inputs), program.verbs()),
        program_(program),
        dtype_(dtype),
        inputs_(std::move(inputs)) {}

  void run(const kernel::Range3& range, const Place& fields, std::span<const kernel::Points> to,
           std::span<const kernel::Points> coefficients, std::byte* scratch) const override {
    const Index n = range.extent(2), x = range.first[2];
    const auto item = static_cast<Index>(size_of(dtype_));
    const auto row_at = [&](std::byte* data, Index stride) {
      return Tile{data, dtype_, {n}, {stride}, static_cast<std::size_t>(n * item)};
    };
    const auto row = [&](const kernel::Points& points, const kernel::Axes& at) {
      return row_at(points.at(at[0], at[1], at[2]), points.strides[2]);
    };
    std::vector<Tile> inputs(inputs_.size());
    std::vector<kernel::StoreTarget> stores(replaced().size());
    for (Index z = range.first[0]; z < range.last[0]; ++z)
      for (Index y = range.first[1]; y < range.last[1]; ++y) {
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
          const auto& [coefficient, number, offset] = inputs_[i];
          const kernel::Axes at{z + offset[0], y + offset[1], x + offset[2]};
          inputs[i] = coefficient ? row(coefficients[number], at) : row_at(fields(number, at), item);
        }
        for (std::size_t i = 0; i < replaced().size(); ++i)
          stores[i] = {replaced()[i].second, row(to[replaced()[i].first], {z, y, x})};
        kernel::evaluate(program_, {n}, inputs, stores, {}, scratch);
      }
  }
  std::size_t scratch_bytes() const override { return kernel::evaluate_scratch(program_); }

 private:
  kernel::Program program_;
  Dtype dtype_;
  std::vector<FieldInput> inputs_;
};

class LoopStage final : public FieldStage {
 public:
  LoopStage(kernel::CompiledLoop loop, Replaced replaced, Dtype dtype, const kernel::Axes& radius, double flops)
      : FieldStage(std::move(replaced), radius, flops),
        loop_(std::move(loop)),
        item_(static_cast<Index>(size_of(dtype))) {}

  void run(const kernel::Range3& range, const Place& fields, std::span<const kernel::Points> to,
           std::span<const kernel::Points> coefficients, std::byte* scratch) const override {
    const bool dense = std::ranges::all_of(loop_.rows, [&](const kernel::LoopRow& row) {
      return row.kind == kernel::LoopRow::Kind::neighbour || coefficients[row.number].strides[2] == item_;
    });
    const Index longest = dense ? range.extent(2) : kernel::loop_piece;
    std::vector<void*> results(replaced().size());
    std::vector<const void*> rows(loop_.rows.size());
    for (Index z = range.first[0]; z < range.last[0]; ++z)
      for (Index y = range.first[1]; y < range.last[1]; ++y)
        for (Index x = range.first[2]; x < range.last[2]; x += longest) {
          const Index n = std::min(longest, range.last[2] - x);
          for (const auto& [field, value] : replaced())
            results[static_cast<std::size_t>(value)] = to[field].at(z, y, x);
          for (std::size_t k = 0; k < rows.size(); ++k) {
            const auto& [kind, offset, number] = loop_.rows[k];
            const kernel::Axes at{z + offset[0], y + offset[1], x + offset[2]};
            rows[k] = kind == kernel::LoopRow::Kind::neighbour
                          ? fields(number, at)
                          : coefficient(coefficients[number], at, n, number, scratch);
          }
          loop_.run(n, results.data(), rows.data());
        }
  }
  std::size_t scratch_bytes() const override { return loop_.scratch_bytes(item_); }

 private:
  const std::byte* coefficient(const kernel::Points& points, const kernel::Axes& at, Index n, std::size_t number,
                               std::byte* scratch) const {
    return kernel::dense_row(points.at(at[0], at[1], at[2]), points.strides[2], n, item_, number, scratch);
  }

  kernel::CompiledLoop loop_;
  Index item_;
};

}  // namespace

std::shared_ptr<const FieldStage> expression_stage(const kernel::Program& program, Replaced replaced, Dtype dtype,
                                                   std::vector<FieldInput> inputs) {
  return std::make_shared<ExpressionStage>(program, std::move(replaced), dtype, std::move(inputs));
}

std::shared_ptr<const FieldStage> loop_stage(kernel::CompiledLoop loop, Replaced replaced, Dtype dtype,
                                             const kernel::Axes& radius, double flops) {
  return std::make_shared<LoopStage>(std::move(loop), std::move(replaced), dtype, radius, flops);
}

}  // namespace flagstone::stencil
