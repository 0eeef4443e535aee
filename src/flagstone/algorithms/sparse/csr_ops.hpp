#pragma once
// Products with a CSR matrix that stays on disk: row panels stream, one read of A each.
#include "flagstone/algorithms/sparse/row_choice.hpp"
#include "flagstone/algorithms/sparse/transform.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/storage/sparse/csr.hpp"

namespace flagstone::sparse {

/// How decoding is cut into steps: by the elements of a chunk, and whether a step ends with it.
struct DecodeSteps {
  Index chunk = 1;
  bool ends = false;
};

/// One of the matrix's three arrays, as tasks read it.
struct ElementStream {
  Array array;    // elements
  Array encoded;  // its chunks as stored (set where they are blosc buffers): they stay packed in the cache
  std::vector<std::byte> fill = {};    // an element of a chunk that is not stored
  bool once = false;                   // nobody reads it again in this run: its memory serves the next panel
  std::optional<DecodeSteps> as = {};  // steps of a stream that this one stands for: sums over a step keep their bits

  DecodeSteps steps() const;
};

/// A one-dimensional array as tasks read it. Make it once and keep it, as an operand.
ElementStream stream_of(const Array& array);

/// A matrix opened for streaming: panels are R rows each (a power of two, fixed by the stored matrix).
/// Prepare once and keep it: what one pass leaves in the cache the next one finds through these handles.
struct CsrOperand {
  CsrMatrix matrix;  // as it is seen: rows, cols; where rows are chosen nnz and stored_bytes are those rows' share
  std::vector<CsrPanelRange> panels;  // that are read, in rows as they are stored
  ElementStream values, columns, pointers;
  std::shared_ptr<const RowChoice> rows;       // null: all
  std::shared_ptr<const Transform> transform;  // null: the values as they are stored
  CsrMatrix stored;                            // as it lies on disk
  std::optional<ColumnRange> between;          // of the columns that stay; empty: all
  Index panel_rows() const { return panels.empty() ? 1 : panels[0].row_end - panels[0].row; }
};
CsrOperand prepare(const CsrMatrix& matrix);
/// The same operand for a run that makes a single pass over it: what was read is not kept.
CsrOperand read_once(CsrOperand a);
/// The same with panels of one's own: they must cover all rows in order.
CsrOperand prepare(const CsrMatrix& matrix, std::vector<CsrPanelRange> panels);

/// Some rows of a matrix that is seen as it is stored. Panels stay those of the stored matrix; those without a chosen
/// row are not read. ShapeError where rows lie outside.
CsrOperand chosen(CsrOperand a, RowChoice rows);
/// The same operand, of whose panels only the stored chunks that hold values of chosen rows are read: panels end where
/// a chunk without any lies between two rows. Cost: the pointers of panels with a chosen row, read on this thread.
CsrOperand touched(CsrOperand a);
/// Columns [first, last) of what is seen, from 0 again: every panel is read, and what lies beside them is dropped.
CsrOperand columns_between(CsrOperand a, Index first, Index last);
/// What ingest learned of the matrix on disk, for costs: columns' own sums only where they were counted; nothing where
/// columns are left out.
std::optional<CsrStatistics> ingest_statistics(const CsrOperand& a);
/// What ingest learned of the matrix as it is seen: nothing where rows are chosen, values change, or
/// there are too many columns to count.
std::optional<CsrStatistics> known_statistics(const CsrOperand& a);
/// The same matrix seen through a transform; its columns are those that stay. ShapeError where factors do not fit.
CsrOperand transformed(CsrOperand a, Transform transform);

// In all of them: X and Y's in-memory arrays come from Graph::allocate (or memory_array), row-major; X's dtype
// (float32, float64, complex64 or complex128) is the precision of the products; sums over panels are float64
// (complex128) in a fixed order, so the bits do not depend on workers or limits. Y is complex where X is, and then
// (..)ᵀ of a product that is made in the same read is (..)ᴴ: gram_multiply is AᴴA X. Each call adds one task per panel,
// and where sums over rows are long (sums_in_order) one per stripe of them and some panels, whose sums are boxes of
// their own; graph.barrier() makes the result visible. Blocks of 16, 32 or 64 float32 columns (half of it in float64)
// run fastest. `shift` (null: none) is a 1 x n float64 array mu: the matrix used is A - 1 muᵀ, never formed.
//
// Traffic of each: CsrMatrix::stored_bytes read (less what the cache still holds of an earlier pass), plus Y or X where
// that is on disk. Memory: X, Y, and for each running task its panel as stored, a decoded step (some MiB), and where
// there is a short sum over rows n x b of X's dtype and of float64; where it is long one to eight panels, sorted, and
// their rows of T, twice.

/// Y := (A - 1 muᵀ) X. X n x b in memory; Y m x b: in memory, or on disk with chunks of whole rows. Chunks of
/// panel_rows() x b are written straight where all rows are seen; others are put together from panels (2 m b elements
/// copied in memory). 2 nnz b flops.
void multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y);
/// Y += (A - 1 muᵀ)ᵀ X. X m x b (boxes of panel rows), Y n x b float64 in memory. 2 nnz b flops.
void multiply_transposed(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y);
/// Y += (A - 1 muᵀ)ᵀ (A - 1 muᵀ) X: one read of A. X n x b, Y n x b float64, both in memory. 4 nnz b flops.
void gram_multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y);
/// The same, and of the same read moments (2 x n float64, in memory) += sums of A's columns and of their squares.
void gram_multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y,
                   const Array& moments);
/// Y += A X of a symmetric (Hermitian) matrix of which one triangle is stored: one read of it. X n x b, Y n x b float64
/// (complex128), both in memory. 4 nnz b flops of the stored values.
void symmetric_multiply(Graph& graph, const CsrOperand& a, const Array& x, const Array& y);
/// Y := (A - 1 muᵀ) X as multiply, and in the same read Z += (A - 1 muᵀ)ᵀ Y (n x b float64, in memory): scores and
/// what the residual ‖Xᵀu − σ v‖ needs. 4 nnz b flops. Y may have more columns: its columns [col, col + b).
void multiply_and_project(Graph& graph, const CsrOperand& a, const Array& x, const Array* shift, const Array& y,
                          const Array& z, Index col = 0);
/// G += AᵀA (n x n float64 in memory, lower triangle only; above the diagonal it holds nothing of use). Flops: sum of
/// nnz(row)², or m n² through BLAS where that is faster; one read of A (more where the cache cannot keep a panel:
/// wide G is made in strips of rows). After it, wait with graph.barrier(): strips of G are boxes of their own.
void gram_matrix(Graph& graph, const CsrOperand& a, const Array& g);

}  // namespace flagstone::sparse
