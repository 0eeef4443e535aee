#pragma once
// One panel's worth of sparse arithmetic: decoded CSR rows times narrow row-major blocks of columns.
#include <cstddef>
#include <cstdint>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// Decoded values of consecutive rows: value p of row i is at p - pointers[0], pointers[i] <= p < pointers[i + 1].
/// Within a row the columns may be in any order, repeated ones add up.
struct CsrRows {
  Index rows = 0, cols = 0;
  const Index* pointers = nullptr;     // rows + 1, not decreasing
  const std::byte* values = nullptr;   // of the dtype of X and Y
  const std::byte* columns = nullptr;  // all in [0, cols): unpack_columns has checked them
  Dtype column_dtype = Dtype::uint32;  // what column_dtype_for says
};

/// Values of some of the columns, in the order of the rows. Each is its row, its column (both uint16, counted from the
/// first of these columns) and itself, of the dtype of T and Y, without gaps: a sorter that writes one stream for each
/// of many groups of columns writes as few as can be.
struct CsrRecords {
  Index count = 0;
  const std::byte* data = nullptr;
};

/// The index type that the kernels read for so many columns: uint16, uint32 or uint64.
Dtype column_dtype_for(Index cols);
/// Indices of any integer dtype -> column_dtype_for(cols). Returns the position of the first that is out of range, or
/// -1; what `to` then holds is of no use. `from` may equal `to` where both dtypes have one size.
Index unpack_columns(const std::byte* from, Dtype from_dtype, Index n, Index cols, std::byte* to);

// X is n x b, T rows x b, Y n x b, all row-major with one unit stride, all of one dtype: float32, float64, complex64 or
// complex128 (four times the flops; `shift_row` and `sums` are null, a sum is one in the stored order). `shift_row`
// (null: none) is b numbers s: the product is A X - 1 sᵀ, where s = muᵀX stands for a matrix A - 1 muᵀ. `sums` (null:
// not needed) is b float64 numbers, to which 1ᵀT is added: shift_merge makes Aᵀ T - mu (1ᵀT) of it.

/// T := A X - 1 sᵀ. Reads 2 to 8 + sizeof(value) bytes a value once and b elements of X from cache; 2 b flops a value.
void csr_multiply(const CsrRows& a, const Tile& x, const double* shift_row, const Tile& t);
/// T := A X, or T += A X: an element of T is one sum in the order in which values are stored, so its bits depend
/// neither on the width of the block nor on where the columns of A are cut. 0 to 0.5 ns a value more than csr_multiply
/// for blocks of less than 256 bytes.
void csr_multiply_ordered(const CsrRows& a, const Tile& x, bool accumulate, const Tile& t);
/// Y += Aᵀ T, or Aᴴ T. As csr_multiply, with Y read and written.
void csr_multiply_transposed(const CsrRows& a, const Tile& t, const Tile& y, double* sums, bool conjugated = false);
/// Y += Aᵀ T, or Aᴴ T, of values that each name their row of T and of Y: what split_rows makes. Reads 4 bytes and a
/// value; a row of T once for its values.
void csr_scatter(const CsrRecords& a, const Tile& t, const Tile& y, bool conjugated = false);
/// T := A X - 1 sᵀ and Y += Aᵀ T, row by row, while the row's values are in the nearest cache: 4 b flops a value.
/// T (data null: not wanted) stays in registers otherwise. Complex: Y += Aᴴ T. `ordered`: T as csr_multiply_ordered has
/// it.
void csr_gram(const CsrRows& a, const Tile& x, const double* shift_row, const Tile& t, const Tile& y, double* sums,
              bool ordered = false);

/// moments (2 x n float64): row 0 += sums of the columns, row 1 += sums of their squares, of float32 or float64 values;
/// 3 flops a value.
void csr_moments(const CsrRows& a, Dtype value_dtype, double* moments);

/// s := muᵀ X (float64; n x b read once).
void shift_row(const double* mu, const Tile& x, double* s);
/// Y += partial - mu sumsᵀ. Y float64, partial float32 or float64 (data null: none), mu null: no second term. Complex:
/// Y complex128, mu null.
void shift_merge(const Tile& partial, const double* mu, const double* sums, const Tile& y);

/// Rows [first, first + g.shape[0]) of the lower triangle of G += AᵀA; g is (rows of G) x n, float64, row-major.
/// Values are float32 or float64 (`value_dtype`). Dense enough rows go through BLAS: see gram_matrix_cost. What g holds
/// above the diagonal is unspecified.
/// `scratch`: gram_matrix_scratch(cols) bytes.
void csr_gram_matrix(const CsrRows& a, Dtype value_dtype, Index first, const Tile& g, std::byte* scratch);
std::size_t gram_matrix_scratch(Index cols);
/// Which form csr_gram_matrix takes, and its time for all of G in flops of BLAS; `pairs`: sum of nnz(row)² over the
/// rows.
struct GramMatrixCost {
  bool dense = false;
  double flops = 0;
};
GramMatrixCost gram_matrix_cost(Index rows, Index cols, double pairs);

}  // namespace flagstone::kernel
