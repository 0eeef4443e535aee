#pragma once
// Leading singular triplets: eigenpairs of the cheaper of AᵀA and A Aᵀ, the other side's vectors in the last pass.
#include "flagstone/algorithms/eigenpairs/eigsh.hpp"

namespace flagstone::spectral {

/// A sparse matrix, real or complex, or a real dense one, perhaps seen transposed.
struct SvdsInput {
  std::optional<sparse::CsrOperand> sparse;
  std::optional<Array> dense;
  bool transpose = false;

  /// Of the vectors: float64, or complex128.
  Dtype dtype() const {
    return sparse && is_complex(sparse->matrix.value_dtype()) ? Dtype::complex128 : Dtype::float64;
  }
  Index rows() const { return sparse ? sparse->matrix.rows : dense->shape()[transpose ? 1 : 0]; }
  Index cols() const { return sparse ? sparse->matrix.cols : dense->shape()[transpose ? 0 : 1]; }
  /// Whether the iteration is on AᴴA, so that V is found first and U = A V / σ: the shorter side, except where that
  /// takes two reads of a sparse A in place of one; there it must be four times as short.
  bool right() const;
  Index side() const { return right() ? cols() : rows(); }
  /// How an application reads A.
  int reads() const { return sparse && !right() ? 2 : 1; }
  /// Triplets whose vectors the last pass holds at once: a block of the solver's, or 64 MiB of each where that is more.
  /// All of them of dense matrices and of chosen rows.
  Index width(Index k, Index block) const;
  /// Chunks of the other side's vectors.
  Shape chunks(Index k, Index block) const;
};

using SvdsResult = EigshResult;

/// σ below this share of σ_1 are not told from 0: AᵀA has their squares, and eps of σ_1's.
inline constexpr double least_sigma = 1e-7;

/// found (side x k of a.dtype(), in vectors_chunks): V where right(), else U; other (the longer side x k): the other
/// ones. values: σ, descending; residuals: ‖Aᴴu - σ v‖ (or ‖A v - σ u‖) as measured by the pass that writes `other`, at
/// most tol σ. Where σ is not told from 0 the vectors of the other side are zeros. Holds, beside the solver's and after
/// it, twice side x width() float64, of A Aᴴ the longer side's too; reads A once (twice) for so many triplets.
void svds(Graph& graph, const SvdsInput& a, const EigshOptions& options, const Array& found, const Array& other,
          SvdsResult& result);

}  // namespace flagstone::spectral
