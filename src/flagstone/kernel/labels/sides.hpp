#pragma once
// Points of a node on two sides, so that each side ranks the labels of its points high.
#include <span>

#include "flagstone/kernel/labels/points.hpp"

namespace flagstone::kernel {

/// Labels of points, and what each label is worth.
struct LabelledPoints {
  const Index* pointers = nullptr;
  const std::int32_t* labels = nullptr;
  const double* worth = nullptr;
};

/// Memory of the split, beside `side`: four numbers a label.
struct SideMemory {
  double *left, *right;        // sums of labels, then what a rank is worth
  std::int32_t *seen, *order;  // labels that occur, and one side's of them
};

/// side[p] := 0 or 1 of the points chosen[0, n): random at first, then each point goes where its labels rank higher
/// (Σ worth / log2(rank + 2), ranks by the sums of worth in each side; ties by label, and a point that gains nothing
/// stays), until the mean gain grows by less than 1e-6 (Prabhu, Varma 2014, algorithm 2). left and right are 0 before
/// and after.
void split_sides(const LabelledPoints& y, std::span<const std::int32_t> chosen, std::uint64_t seed,
                 const SideMemory& memory, std::uint8_t* side);

}  // namespace flagstone::kernel
