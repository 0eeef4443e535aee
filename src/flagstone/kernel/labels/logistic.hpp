#pragma once
// Linear classifiers with few weights: L1-regularised logistic regression by coordinate descent.
#include <span>

#include "flagstone/kernel/labels/points.hpp"

namespace flagstone::kernel {

/// Columns of a matrix in memory: column j has the values pointers[j] up to pointers[j + 1].
struct SparseColumns {
  Index rows = 0, columns = 0;
  const Index* pointers = nullptr;
  const std::int32_t* row = nullptr;
  const float* values = nullptr;
};

struct LogisticOptions {
  Index steps = 10;         // of Newton
  double eps = 0.01;        // of the sum of projected gradients, relative to the first one
  double cost[2] = {1, 1};  // C of a row on the negative side, on the positive one
  std::uint64_t seed = 0;
};

/// Numbers of float64 that the solver takes beside w; it takes `columns` indices too.
inline std::size_t logistic_numbers(Index rows, Index columns) {
  return 6 * static_cast<std::size_t>(rows) + 4 * static_cast<std::size_t>(columns);
}

/// w (columns, from zeros) := argmin ‖w‖₁ + Σ C_i log(1 + exp(-y_i w·x_i)), y_i = 1 where positive[i], else -1: steps
/// of Newton, each by coordinate descent on its quadratic and a line search (Yuan, Ho, Lin 2012, newGLMNET; shrinking
/// as there). 4 nnz flops a sweep.
void train_logistic(const SparseColumns& x, const std::uint8_t* positive, const LogisticOptions& options, double* w,
                    std::span<double> numbers, std::int32_t* index);

}  // namespace flagstone::kernel
