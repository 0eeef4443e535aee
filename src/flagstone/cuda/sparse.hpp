#pragma once
// Kernels of products with decoded rows of a CSR matrix (call::CsrProduct). X, T and Z lie by rows.
#include <cuda_runtime_api.h>

#include <cstdint>

#include "flagstone/base/shape.hpp"
#include "flagstone/cuda/work.hpp"

namespace flagstone::cuda {

struct SparseRows {
  Dtype dtype, column_dtype;  // of float32, float64, complex ones; uint16, uint32, uint64
  Index rows, cols;
  const std::int64_t* pointers;  // from 0 on
  const std::byte *values, *columns;
  Index most;  // values at most: what they are, the card alone knows
};

/// T := A X - 1 sᵀ (s null: none), or T += A X. One warp a row over blocks of columns: an element is one sum in the
/// stored order.
void sparse_multiply(cudaStream_t stream, const SparseRows& a, const Tile& x, const double* s, bool accumulate,
                     const Tile& t);

/// s := muᵀ X (mu null: 1ᵀ X) of real X, in float64 and a fixed order.
void sums_of_columns(cudaStream_t stream, const double* mu, const Tile& x, double* s);

/// A's values in the order of their columns, and of their places within one: workspace, filled by a stable sort. Bits
/// of sums over rows depend on the rows alone then, which sums by atomic additions would not.
class ByColumns {
 public:
  /// Of up to 2^32 - 2 columns and values.
  ByColumns(Workspace& space, const SparseRows& a);
  void sort(cudaStream_t stream, const SparseRows& a) const;
  /// Z += Aᵀ T, or Aᴴ T, - mu sumsᵀ (mu null: none). Z is float64 (complex128), a panel's sum T's dtype. One warp a
  /// column of A.
  void add(cudaStream_t stream, const SparseRows& a, const Tile& t, bool conjugate, const double* mu,
           const double* sums, const Tile& z) const;

 private:
  std::uint32_t *keys_, *sorted_, *places_, *order_;  // columns and places of values, before and after
  std::uint32_t *rows_, *starts_;                     // of each value; of each column among the sorted
  std::byte* sorting_;
  std::size_t sorting_bytes_ = 0;
};

}  // namespace flagstone::cuda
