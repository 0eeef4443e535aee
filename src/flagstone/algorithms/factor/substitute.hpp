#pragma once
// Solves with triangular factors: forward and back substitution with any number of right-hand sides.
#include <complex>
#include <memory>
#include <optional>
#include <vector>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/runtime/resume/stages.hpp"
#include "flagstone/runtime/runtime.hpp"

namespace flagstone::linalg {

/// op(T) of which one triangle counts: the lower one of op(T), or the upper one. The other is not read.
struct TriangularOperand {
  Operand matrix;
  bool lower = true;
  bool unit = false;    // ones on the diagonal, whatever is stored there
  bool turned = false;  // op(T) is the transpose of what was given: errors name rows and columns of that
};
TriangularOperand adjoint(TriangularOperand x);

/// ShapeError unless T is square, B has its rows and dtype, and X B's shape.
void check_substitute(const char* who, const TriangularOperand& t, const Operand& b, const Array* x);

struct SubstituteOptions {
  /// Where the first factor's diagonal is copied to as it passes, n elements in memory (nothing is where B has no
  /// columns).
  const Array* diagonal = nullptr;
  /// B is columns of the identity, from this one on, and there is one lower factor: what lies above them is zero, and
  /// neither read nor written; a third of the flops for all of them.
  std::optional<Index> identity = {};
  std::complex<double> alpha = 1.0;  // the solution is multiplied by it
  /// Where finished rows of tiles are noted; x is not b then. Between two factors lies an array beside it, n x m.
  std::shared_ptr<Checkpoint> checkpoint = nullptr;
  bool saved = false;  // moves what it would with a checkpoint: a plan has none
  /// The factors are the caller's: NaN and Inf of the first one's triangle are named, as it is first read.
  bool given = false;
  Whose whose = Whose::matrix;  // what they are, for errors
};

/// X := alpha Tₘ⁻¹ … T₁⁻¹ B. `x` is written whole, and is `b` itself or overlaps nothing that is read. The tiles are
/// functions of shapes and dtype, so the bits are; the budget decides how many columns of X go through the sweeps
/// together. A run throws PivotError with the first zero on a diagonal, or the place of a NaN or
/// Inf in B. Cost: n² m flops a factor (complex: four times); each factor's triangle is read once for every group of
/// columns of X that fits into the budget, B once.
void substitute(Graph& graph, const char* who, const std::vector<TriangularOperand>& factors, const Operand& b,
                const Array& x, const SubstituteOptions& options = {});
/// A diagonal that is copied as its factor passes, of a solve that may go on: what a dead process saw of it, if any.
[[nodiscard]] Stages::Kept keep_diagonal(Stages& stages, const Array* diagonal);
/// Columns of a tile of X: with factor_tile rows the chunks that a new one should have.
Index right_tile(Index columns);

}  // namespace flagstone::linalg
