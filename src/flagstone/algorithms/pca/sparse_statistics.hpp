#pragma once
// What an own CSR group carries since its ingest, computed for one that somebody else wrote.
#include <limits>

#include "flagstone/algorithms/sparse/csr_ops.hpp"

namespace flagstone::spectral {

/// Column sums and squares, and the first NaN or Inf, in one read of the matrix, or of its first `most` panels. Empty
/// in a planned run. Holds 2 n float64 for each running task.
CsrStatistics stream_statistics(Graph& graph, const sparse::CsrOperand& x,
                                Index most = std::numeric_limits<Index>::max());
/// Throws NumericalError when the statistics know of a NaN or Inf.
void check_finite(const CsrStatistics& statistics);
/// Throws NumericalError when squares of the values leave float64's range.
void check_squares(const CsrStatistics& statistics);

}  // namespace flagstone::spectral
