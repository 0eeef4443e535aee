#pragma once
// A = L Lᴴ, any size, inside the budget.
#include <memory>
#include <optional>
#include <string>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::linalg {

struct CholeskyOptions {
  std::string who = "cholesky";  // whom errors name
  bool turned = false;           // and whether A is the transpose of what was given there
  double shift = 0;              // added to the diagonal of A on the way
  /// Where finished tiles are noted; what a dead process finished is not computed again.
  std::shared_ptr<Checkpoint> checkpoint;
  /// Right-hand sides B whose forward half runs with the factorization, while its tiles are in memory: `forward`, which
  /// stays in memory with the block, becomes L⁻¹ B, and `diagonal`, where there is one, that of L. To the bit what
  /// substitute() makes of the factor: n² m flops (complex: four times), no byte of it read for them.
  std::optional<Operand> right;
  std::optional<Array> forward, diagonal;
};

/// ShapeError unless A is square and of a dtype that is factored.
void check_cholesky(const std::string& who, const Operand& a);
/// Adds the tasks of L Lᴴ = A + shift I. The lower triangle of op(A) is read, each tile of it once. `l` is written,
/// what lies above its diagonal tiles never (it is zero in what is new); transposed it is U with Uᵀ conj(U) = op(A), so
/// that the upper factor of A is that of Aᵀ, transposed. The arithmetic (the tile) depends on shape and dtype alone,
/// the superblock (the order) also on graph.budget(). `l` may be `a` itself, without a shift: then L replaces its lower
/// triangle, and what is above the diagonal stays. A run throws PivotError with the order of the leading minor that
/// is not positive.
/// Cost: n³/3 flops (complex: four times); reads s (n³/(3c) + n²/2) bytes for superblocks of c x c, c ~ sqrt(budget/s),
/// writes s n²/2: left-looking by tiles, sqrt(2) times the lower bound (Beaumont, Eyraud-Dubois, Langou, Verite, arXiv
/// 2202.10217); a superblock as high as the matrix is the slab of Bereux (SIMAX 2008), better while n <= 2c.
void cholesky(Graph& graph, const Operand& a, const Operand& l, const CholeskyOptions& options);
/// Edge of the tiles of a factor of this order: the chunks that a new one should have.
Index factor_tile(Index n, Dtype dtype);

}  // namespace flagstone::linalg
