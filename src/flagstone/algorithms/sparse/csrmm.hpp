#pragma once
// Y := alpha op(A) op(X) + beta Y, A sparse and streamed; X and Y on disk or in memory, of any size.
#include <complex>
#include <memory>
#include <string>

#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::sparse {

/// How the vectors were cut when the graph was built: by then the budget is known.
struct CsrmmNotes {
  Index width = 0;   // columns of X and Y in a block
  Index blocks = 1;  // of columns: A is read once for each
  Index depth = 0;   // rows of X (of Y where A is transposed) that are held at a time
  Index stretches = 1;
  Index reads = 1;  // of A
  std::string text() const;
};

struct CsrmmOptions {
  bool transposed = false;                   // op(A) = Aᵀ
  std::complex<double> alpha = 1, beta = 0;  // of a real Y real
  std::shared_ptr<Checkpoint> checkpoint;
  std::shared_ptr<CsrmmNotes> notes;  // where somebody wants them
  bool gram = false;                  // op(A) = AᴴA: both products in one read of A
};

/// ShapeError says who does not conform.
void check_csrmm(const CsrOperand& a, const CsrmmOptions& options, const linalg::Operand& x, const linalg::Operand& y);

/// Y float32 or float64 and X of any real dtype, or both of one complex one: Y's is the precision of the products.
/// `y_in` (null where beta is 0) has the shape of y's array and may be any array but it. Y's array is written by whole
/// chunks, a chunk once.
///
/// An element of A X is one sum in Y's precision, in the order of A's stored columns; one of Aᵀ X is summed so within
/// each panel of rows, and panels are added up in float64 (complex128): in their order where all sums take more than
/// 2 MiB in Y's precision, else in a fixed tree. Neither depends on the blocks below.
///
/// Cut by columns: blocks of w columns of X (N) or of float64 sums (T) are held, A is read once for each:
/// ceil(c / w) P + s c (n + m) bytes. Cut by rows of X, where not even one block of columns has room, or where it moves
/// fewer bytes: for each panel X passes in stretches of `depth` rows, P + panels s c n + s c m bytes, and the panel is
/// decoded once for each. Of a transposed A stretches of columns are summed up, and A and X are read once for each.
/// Memory: (w n s or the stretch's; of sums 8 or 16 bytes an element) + for each running task a panel as stored, a
/// decoded step and its rows of Y. Of a transposed A also one to eight panels, sorted, twice (4 + s bytes a value).
/// 2 nnz c flops (complex: 8).
///
/// AᴴA X holds X and the sums of a block of columns: w n (s + 8) bytes (complex: + 16); A is read once for each block,
/// 4 nnz c flops. Panels are added in their order where all sums take more than sums_in_order says, and then its rows
/// of T = A X are sums as above; others are never cut.
void csrmm(Graph& graph, const CsrOperand& a, const linalg::Operand& x, const Array* y_in, const linalg::Operand& y,
           const CsrmmOptions& options);

/// The chunks of a new Y: rows of a panel (or a power of two of them), 256 columns at most, 4 MiB at most.
Shape csrmm_chunks(const CsrOperand& a, bool transposed, Index cols, Dtype dtype);

}  // namespace flagstone::sparse
