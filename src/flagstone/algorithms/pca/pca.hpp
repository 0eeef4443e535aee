#pragma once
// Principal components of a dense or sparse matrix on disk, centred without touching it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::spectral {

struct PcaInput {
  std::optional<Array> dense;                // m x n, any real dtype
  bool transpose = false;                    // use denseᵀ
  std::optional<sparse::CsrOperand> sparse;  // m x n
  Index rows() const;
  Index cols() const;
};

struct PcaOptions {
  Index k = 0;
  bool center = true;
  std::string method = "auto";  // auto | gram | krylov | krylov-schur
  double tol = 1e-5;            // error of sigma relative to sigma_1
  std::uint64_t seed = 0;
  /// Where the state is saved between two passes over X, and taken from.
  std::shared_ptr<Checkpoint> checkpoint = nullptr;
};

/// What choose() decided and why; a function of shape, dtype, stored statistics, options and the budget.
struct PcaChoice {
  std::string method;  // "gram" | "krylov" | "krylov-schur"
  Index block = 0;
  int passes = 0;        // reads of X: for both Krylov methods what a spectrum that falls like a power needs
  int least_passes = 0;  // what a matrix of low rank needs
  int most_passes = 0;   // what noise without any structure needs (all three equal where the count is certain)
  std::string note;      // the two costs that were compared
};

struct PcaResult {
  std::vector<double> components;  // k x n
  std::vector<double> singular_values, explained_variance, explained_variance_ratio, mean, residual;
  int passes = 0;
  std::string method;
};

/// ShapeError: k out of range, wrong dtype; NumericalError: the matrix is known to hold NaN or Inf (row, column).
void check_pca(const PcaInput& x, const PcaOptions& options);
/// `budget` in bytes; the smallest parameters when 0.
PcaChoice choose_pca(const PcaInput& x, const PcaOptions& options, std::uint64_t budget, const MachineProfile& profile);
/// Rows of one chunk of the scores (m x k, float32 for inputs of at most 32 bits a value, else float64).
Shape scores_chunks(const PcaInput& x, Index k);
Dtype scores_dtype(const PcaInput& x);
/// Adds and awaits all stages; `scores` is written whole. In a planned run `result` gets passes and method only.
void pca(Graph& graph, const PcaInput& x, const PcaOptions& options, const PcaChoice& choice, const Array& scores,
         PcaResult& result);

}  // namespace flagstone::spectral
