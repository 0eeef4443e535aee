#pragma once
// T := A X and Y := Aᵀ X over a semiring, A sparse and streamed, vectors in memory; of chosen rows what holds them.
#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/base/semiring.hpp"

namespace flagstone::sparse {

/// Arrays in memory, row-major. Dtypes: kernel::semiring_vector and semiring_block of one `real`.
struct SemiringVectors {
  Array x;      // n x b; of Aᵀ X: m x b
  Array there;  // boolean, of X's shape: which elements there are; empty: all
  Array y;      // m x b; of Aᵀ X: n x b
  Array found;  // boolean, of Y's shape: := where a pair met; empty: nobody asks. Needed where `there` is given
};

/// Y := A X, or Aᵀ X. Traffic: the chunks of A's panels, once. Memory beside the vectors: a panel as stored and a
/// decoded step for every running task; of Aᵀ X up to eight accumulators like Y, fewer where Y is large (64 MiB in all,
/// two at least): panel i adds to the (i modulo their number)th, and they join in order, so that bits depend on neither
/// workers nor limits. nnz b steps of two operations.
void semiring_product(Graph& graph, const CsrOperand& a, Semiring semiring, bool transposed,
                      const SemiringVectors& vectors);

/// The same operand, of whose panels only the stored chunks that hold values of chosen rows are read: panels end where
/// a chunk without any lies between two rows. Cost: the pointers of panels with a chosen row, read on this thread.
CsrOperand touched(CsrOperand a);

}  // namespace flagstone::sparse
