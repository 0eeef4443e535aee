#pragma once
// Minima, maxima, counts and moments along rows or columns of a CSR matrix that stays on disk: one read of it.
#include "flagstone/algorithms/sparse/csr_ops.hpp"

namespace flagstone::sparse {

/// What becomes of the stored values of one row or column: two words. NaN stays NaN in minima and maxima, and is no
/// zero.
enum class Fold : std::uint8_t {
  sum,      // compensated: of a column the sum and what rounding took from it, of a row one word, the two together
  min,      // the least (+Inf where none is stored), their number
  max,      // the largest (-Inf), their number
  nonzero,  // how many are not zero, their number
  moments,  // sum, sum of squares, added in stored order
  counts,   // sum, the least value below 0 (0 where there is none; NaN shows in the sum)
};

struct FoldOptions {
  Fold fold = Fold::min;
  Dtype real = Dtype::float64;  // what values are decoded (and transformed) in: float32 or float64
};

// In all: the zeros that are not stored are the caller's to add. Stored values are compared and added in float64.
// Traffic: CsrMatrix::stored_bytes read. Memory beside a panel's: 16 bytes a result, for columns also 16 n for every
// panel that waits to be joined. No flops (sum: 7 nnz, moments: 3 nnz, counts: nnz).

/// One of several folds in one read.
struct FoldRequest {
  Fold fold = Fold::min;
  bool rows = false;  // along each row; else along each column
  Array out;          // as below
  bool tree = false;  // of moments of columns: panels are added up as ColumnMoments are (sparse_statistics), not joined
};
/// All of them in one read; each has the bits that it has alone.
void fold_several(Graph& graph, const CsrOperand& a, Dtype real, const std::vector<FoldRequest>& folds);

/// out := along each column. out: 2 x n float64 in memory (first words, then second).
void fold_columns(Graph& graph, const CsrOperand& a, const FoldOptions& options, const Array& out);
/// out := along each row. out: m x 2 float64 in memory, of sums m x 1.
void fold_rows(Graph& graph, const CsrOperand& a, const FoldOptions& options, const Array& out);

}  // namespace flagstone::sparse
