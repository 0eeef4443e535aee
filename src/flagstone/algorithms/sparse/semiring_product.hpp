#pragma once
// T := A X and Y := Aᵀ X over a semiring, A sparse and streamed; X and Y on disk or in memory, of any size.
#include "flagstone/algorithms/sparse/csrmm.hpp"
#include "flagstone/algorithms/sparse/csrmm_vectors.hpp"

namespace flagstone::sparse {

struct SemiringProduct {
  Semiring semiring = Semiring::plus_times;
  bool transposed = false;  // op(A) = Aᵀ
  linalg::Operand x;        // n x b (of Aᵀ X: m x b) of kernel::semiring_vector
  Array there = {};         // boolean, of X's shape: which elements there are; empty: all. X, Y and both in memory
  linalg::Operand y;        // m x b (of Aᵀ X: n x b) of kernel::semiring_block; of sums in int64 any integers
  Array found = {};         // boolean, of Y's shape: := where a pair met; empty: nobody asks. Needed with `there`
  Finish finish = {};       // what Y had, and a mask; alpha and beta are 1 and 0. Of `compact` A's chosen rows are T's
  std::shared_ptr<Checkpoint> checkpoint = nullptr;
  std::shared_ptr<CsrmmNotes> notes = nullptr;
};

/// Traffic: the chunks of A's panels, X and Y, once, where X (of Aᵀ X: Y) has room; else blocks of columns, or
/// stretches of rows, as csrmm cuts them. Memory: the vectors or their parts, a panel as stored and a decoded step for
/// every running task; of Aᵀ X up to eight accumulators like Y, fewer where Y is large (64 MiB in all, two at least):
/// panel i adds to the (i modulo their number)th, and they join in order. An element of A X is one sum in the order of
/// A's columns. So bits depend on neither workers nor limits nor cuts. nnz b steps of two operations.
void semiring_product(Graph& graph, const CsrOperand& a, const SemiringProduct& product);

}  // namespace flagstone::sparse
