#include "flagstone/algorithms/stencil/field/field_stage.hpp"

#include <algorithm>
#include <cstdlib>

namespace flagstone::stencil {

FieldStage::FieldStage(kernel::Program program, std::vector<std::pair<std::size_t, int>> replaced, Dtype dtype,
                       std::vector<FieldInput> inputs)
    : program_(std::move(program)), replaced_(std::move(replaced)), dtype_(dtype), inputs_(std::move(inputs)) {
  for (const FieldInput& input : inputs_)
    for (std::size_t d = 0; d < 3; ++d) radius_[d] = std::max(radius_[d], std::abs(input.offset[d]));
}

void FieldStage::run(const kernel::Range3& range, const Place& fields, std::span<const kernel::Points> to,
                     std::span<const kernel::Points> coefficients, std::byte* scratch) const {
  const Index n = range.extent(2), x = range.first[2];
  const auto item = static_cast<Index>(size_of(dtype_));
  const auto row_at = [&](std::byte* data, Index stride) {
    return Tile{data, dtype_, {n}, {stride}, static_cast<std::size_t>(n * item)};
  };
  const auto row = [&](const kernel::Points& points, const kernel::Axes& at) {
    return row_at(points.at(at[0], at[1], at[2]), points.strides[2]);
  };
  std::vector<Tile> inputs(inputs_.size());
  std::vector<kernel::StoreTarget> stores(replaced_.size());
  for (Index z = range.first[0]; z < range.last[0]; ++z)
    for (Index y = range.first[1]; y < range.last[1]; ++y) {
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const auto& [coefficient, number, offset] = inputs_[i];
        const kernel::Axes at{z + offset[0], y + offset[1], x + offset[2]};
        inputs[i] = coefficient ? row(coefficients[number], at) : row_at(fields(number, at), item);
      }
      for (std::size_t i = 0; i < replaced_.size(); ++i)
        stores[i] = {replaced_[i].second, row(to[replaced_[i].first], {z, y, x})};
      kernel::evaluate(program_, {n}, inputs, stores, {}, scratch);
    }
}

}  // namespace flagstone::stencil
