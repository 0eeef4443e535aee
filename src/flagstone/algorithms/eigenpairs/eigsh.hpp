#pragma once
// Eigenpairs of a symmetric or Hermitian matrix that is larger than memory, or of which only products are known.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/algorithms/eigenpairs/operators.hpp"
#include "flagstone/algorithms/spectral/krylov_schur.hpp"

namespace flagstone::spectral {

/// One of three.
struct EigshInput {
  std::optional<sparse::CsrOperand> sparse;
  std::optional<Array> dense;  // float64 or complex128
  Applied applied;
  Index n = 0;
};

struct EigshOptions {
  SchurOptions solver;  // block, ncv, most: 0 where they are to be chosen
  std::string method = "auto";
  std::shared_ptr<Checkpoint> checkpoint;  // where progress is saved
};

struct EigshResult {
  std::vector<double> values, residuals;  // in the order of `which`; residuals as measured
  std::string method;
  int applications = 0, passes = 0;  // all; and reads of A, which are applications
  bool converged = false, verified = false;
  Index block = 0, ncv = 0;
};

/// What is chosen for n: widths, and how often A is applied at most. ShapeError where they are out of range.
EigshOptions completed(EigshOptions options, Index n);
/// Chunks of the vectors: panels of whole rows.
Shape vectors_chunks(const EigshOptions& options, Index n);
/// Of the solver, with where it saves its progress.
SchurOptions saving(const EigshOptions& options, Stages& stages);
/// vectors (n x k, in vectors_chunks or in memory) := the eigenvectors. Not converged: what was reached.
void eigsh(Graph& graph, const EigshInput& a, const EigshOptions& options, const Array& vectors, EigshResult& result);

}  // namespace flagstone::spectral
