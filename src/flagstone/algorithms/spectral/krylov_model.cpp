#include "flagstone/algorithms/spectral/krylov_model.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/kernel/dense/lapack.hpp"

namespace flagstone::spectral {
namespace {

// lambda_1 - lambda_j = noise_edge (j / n)^(2/3) R for the j largest of n eigenvalues of noise: (3 pi / 4
// sqrt(2))^(2/3) where they fill a semicircle of radius R (X much taller than wide). Square X, Marchenko and Pastur's
// law, has (3 pi / 4)^(2/3) = 1.77 with lambda_1 for R, so this is the more cautious.
constexpr double noise_edge = 1.405;

// Blocks beyond the expected ones, before the basis has to be compressed: spectra flatter than the model are common.
constexpr int spare_blocks = 3;

/// Applications until exp(-4 sqrt(gap)) a step has brought `left` below tol, three more, and never more than span R^n.
int steps_of_gap(double gap, double left, Index block, Index n, double tol) {
  const double steps = std::ceil(std::log(left / tol) / (4 * std::sqrt(gap)));
  return static_cast<int>(
      std::min<Index>(3 + std::max<Index>(1, static_cast<Index>(steps)), ceil_div(n, std::max<Index>(1, block))));
}

}  // namespace

Index krylov_block(Index k, Index n) { return std::min(n, ceil_div(k + k / 4 + 2, 16) * 16); }

int krylov_steps(Index k, Index block, Index n, double tol) {
  const double ratio = static_cast<double>(block + 1) / static_cast<double>(std::max<Index>(1, k));
  return steps_of_gap(std::pow(ratio, 2.0 / 3.0) - 1, 0.05, block, n, tol);
}

int krylov_steps_of_noise(Index k, Index block, Index n, double tol) {
  const auto edge = [n](Index j) { return std::pow(static_cast<double>(j) / static_cast<double>(n), 2.0 / 3.0); };
  const double gap = noise_edge * (edge(block + 1) - edge(std::max<Index>(1, k)));
  // A quarter more than the model: square noise was seen to need 27 reads where the model says 26.
  const int steps = steps_of_gap(gap, 0.5, block, n, tol),
            most = static_cast<int>(ceil_div(n, std::max<Index>(1, block)));
  return std::max(krylov_steps(k, block, n, tol), std::min(steps + (steps + 3) / 4, most));
}

int krylov_blocks(Index block, Index n, int steps) {
  const Index columns = std::max<Index>(1, std::min(block, n));
  return static_cast<int>(std::min<Index>(std::max(3, steps + spare_blocks), ceil_div(n, columns) + 1));
}

std::uint64_t krylov_small_bytes(Index block, Index n, int steps) {
  const auto b = static_cast<std::uint64_t>(std::min(n, block));
  const std::uint64_t p = b * static_cast<std::uint64_t>(krylov_blocks(block, n, steps));
  return 8 * (4 * p * p + 3 * p * b) + kernel::symmetric_eigen_bytes(static_cast<Index>(p));
}

std::uint64_t krylov_bytes(Index k, Index block, Index n, int steps, Dtype dtype) {
  const auto vectors = static_cast<std::uint64_t>(krylov_blocks(block, n, steps) + 1);
  return static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(block) * (8 * vectors + size_of(dtype)) +
         static_cast<std::uint64_t>(8 * n * k) + krylov_small_bytes(block, n, steps);
}

Cost krylov_work(Index n, Index block, int blocks) {
  const auto rows = static_cast<double>(n), b = static_cast<double>(block), p = b * blocks;
  Cost cost;
  // Small factorizations reach half of gemm's rate.
  cost.flops = 16 * rows * b * p + 16 * rows * b * b + 16 * p * p * p;
  cost.float64 = true;
  return cost;
}

}  // namespace flagstone::spectral
