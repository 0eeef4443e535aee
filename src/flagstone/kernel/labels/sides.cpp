#include "flagstone/kernel/labels/sides.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/kernel/labels/shuffle.hpp"

namespace flagstone::kernel {
namespace {

constexpr Index most_rounds_of_sides = 100;
constexpr double least_growth = 1e-6;

double rank_worth(Index rank) { return 1 / std::log2(static_cast<double>(rank) + 2); }

/// sums[l] := what the rank of l is worth among the labels that have a sum; 0 of the others.
void to_ranks(double* sums, std::span<const std::int32_t> seen, std::int32_t* order) {
  const auto end = std::copy_if(seen.begin(), seen.end(), order, [&](std::int32_t l) { return sums[l] > 0; });
  std::sort(order, end,
            [&](std::int32_t a, std::int32_t b) { return sums[a] > sums[b] || (sums[a] == sums[b] && a < b); });
  for (const std::int32_t* at = order; at != end; ++at) sums[*at] = rank_worth(at - order);
}

}  // namespace

void split_sides(const LabelledPoints& y, std::span<const std::int32_t> chosen, std::uint64_t seed,
                 const SideMemory& memory, std::uint8_t* side) {
  Shuffle draw(seed);
  for (std::size_t p = 0; p < chosen.size(); ++p) side[p] = static_cast<std::uint8_t>(draw.below(2));
  const auto each = [&](std::int32_t point, auto&& use) {
    for (Index k = y.pointers[point]; k < y.pointers[point + 1]; ++k) use(y.labels[k]);
  };
  Index seen = 0;
  for (const std::int32_t point : chosen)
    each(point, [&](std::int32_t l) {
      if (memory.left[l] == 0) memory.left[l] = 1, memory.seen[seen++] = l;
    });
  const std::span<const std::int32_t> labels(memory.seen, static_cast<std::size_t>(seen));
  const auto clear = [&] {
    for (const std::int32_t l : labels) memory.left[l] = memory.right[l] = 0;
  };
  double before = -1;
  for (Index round = 0; round < most_rounds_of_sides; ++round) {
    clear();
    for (std::size_t p = 0; p < chosen.size(); ++p) {
      double* sums = side[p] ? memory.right : memory.left;
      each(chosen[p], [&](std::int32_t l) { sums[l] += y.worth[l]; });
    }
    to_ranks(memory.left, labels, memory.order), to_ranks(memory.right, labels, memory.order);
    double sum = 0;
    for (std::size_t p = 0; p < chosen.size(); ++p) {
      double left = 0, right = 0;
      each(chosen[p], [&](std::int32_t l) {
        const double worth = y.worth[l];
        left += worth * memory.left[l], right += worth * memory.right[l];
      });
      if (left != right) side[p] = right > left ? 1 : 0;
      sum += std::max(left, right);
    }
    const double mean = sum / static_cast<double>(chosen.size());
    if (mean - before < least_growth) break;
    before = mean;
  }
  clear();
}

}  // namespace flagstone::kernel
