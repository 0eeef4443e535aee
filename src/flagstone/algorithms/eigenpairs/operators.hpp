#pragma once
// Hermitian matrices as operators: Y += A X for blocks of vectors in memory.
#include <functional>

#include "flagstone/algorithms/operator/dense_operator.hpp"
#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/algorithms/sparse/csr_ops.hpp"

namespace flagstone::spectral {

/// A symmetric or Hermitian CSR matrix, or one triangle of it: one read an application, 2 nnz b flops (of a triangle 4,
/// complex four times as many). X and Y float64 or complex128.
Operator sparse_operator(const sparse::CsrOperand& a);
/// A Hermitian array, float64 or complex128. Square chunks: tiles on and below the diagonal are read, each serves two
/// products; else rows of whole chunks. 2 n² b flops (complex: four times as many).
Operator dense_operator(const Array& a);

/// AᵀA of a CSR matrix: one read an application, 4 nnz b flops. A Aᵀ: two reads, and n x b float64 between them, where
/// A has far fewer rows than columns.
Operator gram_operator(const sparse::CsrOperand& a);
Operator outer_operator(const sparse::CsrOperand& a);
/// XᵀX of a tall dense matrix, XXᵀ of a wide one: one read, 4 m n b flops. Real.
Operator gram_operator(const DensePanels& x);

/// Y := A X on the builder's thread, nothing else running: both n x b in C order.
using Applied = std::function<void(const Array& x, const Array& y)>;
Operator called_operator(Index n, Applied apply);

}  // namespace flagstone::spectral
