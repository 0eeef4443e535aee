#pragma once
// Linear classifiers of one node: L2-regularised squared hinge by dual coordinate descent.
#include "flagstone/kernel/labels/points.hpp"

namespace flagstone::kernel {

struct SvmOptions {
  double cost = 1;   // C of ½‖w‖² + C Σ max(0, 1 - y w·x)²
  double eps = 0.1;  // of the largest less the least projected gradient of a sweep
  Index sweeps = 20;
  std::uint64_t seed = 0;
  double* spread = nullptr;  // where set: the largest less the least projected gradient of the last sweep
};

/// Memory of the solver for so many rows, beside w and alpha.
std::size_t svm_bytes(Index rows);

/// Hsieh et al. 2008 (ICML), algorithm 3 with shrinking and a new order in each sweep; a feature of value 1 behind the
/// others. positive[i]: y_i = 1, else -1. w: features + 1 numbers, the bias last, and alpha: one a row; both as the
/// last sweeps left them, zero at first. Returns the sweeps made. 4 nnz flops each at most.
Index train_svm(const SparsePoints& x, Index features, const bool* positive, const SvmOptions& options, double* w,
                double* alpha, std::byte* memory);

}  // namespace flagstone::kernel
