#pragma once
// Products with a CSR matrix that stays on disk: row panels stream, one read of A each.
#include "flagstone/runtime/graph.hpp"
#include "flagstone/storage/csr.hpp"

namespace flagstone::sparse {

/// A matrix opened for streaming: panels are R rows each (a power of two, fixed by the stored matrix).
struct CsrOperand {
  CsrMatrix matrix;
  std::vector<CsrPanelRange> panels;
  Index panel_rows() const { return panels.empty() ? 1 : panels[0].row_end - panels[0].row; }
};
CsrOperand prepare(const CsrMatrix& matrix);

// In all of them: X and Y's in-memory arrays come from Graph::allocate (or memory_array); X's dtype (float32 or
// float64) is the precision of the products; sums over panels are float64 in a fixed order, so the bits do not
// depend on workers or limits. Each call adds one task per panel; graph.barrier() or await makes the result visible.
// `shift` (null: none) is a 1 x n float64 array mu: the matrix used is A - 1 muᵀ, never formed.

/// Y := (A - 1 muᵀ) X. X n x b in memory; Y m x b: in memory, or on disk with chunks of panel_rows() x b.
void multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y);
/// Y += (A - 1 muᵀ)ᵀ X. X m x b (boxes of panel rows), Y n x b float64 in memory.
void multiply_transposed(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y);
/// Y += (A - 1 muᵀ)ᵀ (A - 1 muᵀ) X: one read of A. X n x b, Y n x b float64, both in memory.
void gram_multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y);
/// Y := (A - 1 muᵀ) X as multiply, and in the same read Z += (A - 1 muᵀ)ᵀ Y (n x b float64, in memory): scores and
/// what the residual ‖Xᵀu − σ v‖ needs.
void multiply_and_project(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y,
                          const Array& z);
/// G += AᵀA (n x n float64 in memory, lower triangle only). Flops: sum of nnz(row)², one read of A.
void gram_matrix(Graph& graph, const CsrOperand& a, const Array& g);

}  // namespace flagstone::sparse
