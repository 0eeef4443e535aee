#pragma once
// Calls of products with decoded rows of a CSR matrix (kernel/sparse/csr.hpp): their value, and the host's arithmetic.
#include <functional>

#include "flagstone/kernel/sparse/csr.hpp"
#include "flagstone/runtime/graph/call.hpp"

namespace flagstone::call {

/// One panel of one product: T = A X or given, Z += Aᵀ T. Tiles are named by their number among the task's, -1: there
/// is none. Rows that lie in tiles are
///   values    of the dtype of X and T;
///   columns   kernel::column_dtype_for the stored matrix;
///   pointers  int64: rows + 1 from 0 on, then the number of stretches, then each one's end (a row), in order.
/// Values and columns may be longer than the last pointer. The host's kernels sum stretch by stretch, as they decode.
struct CsrProduct : CallValue {
  Dtype dtype = Dtype::float64;
  Index rows = 0, cols = 0;
  Index row = 0;                // of a symmetric one, the first row's number in A
  Index width = 0, padded = 0;  // columns of X; as the host's kernels take them
  bool symmetric = false;       // Z += (A_i + A_iᴴ in its place) X, of a triangle with half of its diagonal
  bool ordered = false;         // T has one order of sums
  bool accumulates = false;     // and goes on from what it holds
  bool rows_aside = false;      // T in scratch: its tile is not as the host's kernels need it
  bool sums_aside = false;      // Z's sum of this panel, too
  int values = -1, columns = -1, pointers = -1;
  int x = -1;        // cols x width
  int given = -1;    // rows x width
  int kept = -1;     // rows x width, or more rows: T goes there; float32, float64 or T's dtype
  int sum = -1;      // cols x width float64 (complex128): Z
  int shift = -1;    // 1 x cols float64: mu, the matrix is A - 1 muᵀ
  int moments = -1;  // 2 x cols float64: += sums of columns and of their squares
  int scratch = -1;  // of the host's kernels

  Kernel kernel() const {
    if (given >= 0) return Kernel::csr_rows_multiply_transposed;
    return sum >= 0 ? Kernel::csr_rows_gram : Kernel::csr_rows_multiply;
  }
};

/// Bytes that the host's arithmetic takes of its scratch tile, from its beginning on.
std::size_t csr_product_scratch(const CsrProduct& product);

using UseRows = std::function<void(Index row, const kernel::CsrRows& rows)>;
/// Computes it on the host, from rows that come stretch by stretch, wherever they come from.
void run_csr_product(const CsrProduct& product, std::span<const Tile> tiles,
                     const std::function<void(const UseRows&)>& stream);

}  // namespace flagstone::call
