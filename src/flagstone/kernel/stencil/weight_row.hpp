#pragma once
// One row of a kernel of weights, as the loops of each instruction set take it: plain declarations.
#include <cstdint>
#include <type_traits>

#include "flagstone/base/dtype.hpp"
#include "flagstone/kernel/stencil/weights.hpp"

namespace flagstone::kernel {

struct WeightRow {
  const std::byte* const* terms = nullptr;  // of each neighbour its first element
  const int* ends = nullptr;                // of each group of equal weights the term behind its last one
  const std::byte* weights = nullptr;       // of each group, in the dtype
  int groups = 0;
  Index n = 0;
  std::byte* to = nullptr;
  const std::byte *centre = nullptr, *before = nullptr;
  const std::byte* coefficients[2]{};
  Index steps[2]{};
};
using WeightRowLoop = void (*)(const WeightRow&);

/// The next values of a complex row of n points, of forms with coefficients; `sums`: W(u), one point after the other.
/// Products are (ac - bd, ad + bc), every operation rounds once.
void finish_complex_row(Dtype dtype, WeightsForm form, const WeightRow& row, const std::byte* sums);

WeightRowLoop weight_row_baseline(Dtype dtype, WeightsForm form);
WeightRowLoop weight_row_avx2(Dtype dtype, WeightsForm form);
WeightRowLoop weight_row_avx512(Dtype dtype, WeightsForm form);

}  // namespace flagstone::kernel
