#pragma once
// C := alpha op(A) op(B) + beta C, any sizes, inside the budget.
#include <complex>
#include <memory>
#include <string>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::linalg {

/// What became of lazy operands when the graph was built: by then the budget is known.
struct MatmulNotes {
  std::string a, b;  // empty: nothing to say
  std::uint64_t scratch_bytes = 0;
};

struct MatmulOptions {
  std::complex<double> alpha = 1.0, beta = 0.0;
  bool in_place = false;  // c_out holds C: beta times its elements are updated, there is no c_in
  /// Where progress is saved, superblock by superblock and within long ones; what a dead process finished is not
  /// computed again.
  std::shared_ptr<Checkpoint> checkpoint;
  std::shared_ptr<MatmulNotes> notes;  // where somebody wants them
};

/// Shape of the product; ShapeError says who does not conform.
Shape check_matmul(const Operand& a, const Operand& b, const Array* c);
/// Adds the tasks of one product to `graph`. `c_in` (null when beta == 0) may be any array, `c_out` is written whole
/// and must not overlap a, b or c_in. The arithmetic (tile boundaries, k-step) depends on shapes, dtype and layouts
/// only; the superblock (order) also on graph.budget(). Float and complex dtypes; whole numbers, which wrap; booleans.
/// Stacks of matrices broadcast along the dimensions before the last two.
/// A lazy operand that is read several times is kept in scratch where that costs less than computing it again.
/// Cost: 2mnk flops (8mnk complex); reads s(mnk/c_cols + mnk/c_rows) + compulsory, writes s mn, for superblocks of
/// c_rows x c_cols ~ sqrt(budget / s) (Smith, Lowery, Langou, van de Geijn, arXiv 1702.02017).
void matmul(Graph& graph, const Operand& a, const Operand& b, const Array* c_in, const Array& c_out,
            const MatmulOptions& options);
/// The chunk shape that a new output of this product should have.
Shape output_chunks(Index rows, Index cols, Dtype dtype);

}  // namespace flagstone::linalg
