#pragma once
// P A = L U with LAPACK's partial pivoting over whole columns, any size whose columns of tiles fit, and solves with it.
#include <vector>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/runtime/runtime.hpp"

namespace flagstone::linalg {

/// A factor as LU takes it: columns of tiles, each in two boxes, above its diagonal tile and from there down.
class LuColumns {
 public:
  /// Boxes of one array: L below the diagonal, U on and above it.
  LuColumns(const Array& whole, Index tile) : LuColumns(whole, whole, tile) {}
  /// What lies above the diagonal tiles is in `upper`, the rest in `lower`.
  LuColumns(const Array& lower, const Array& upper, Index tile);
  /// Each box a nameless array of the run's scratch.
  LuColumns(Graph& graph, Index n, Dtype dtype, Index tile);

  Index order() const { return n_; }
  Index tile() const { return tile_; }
  Index count() const { return static_cast<Index>(lower_.size()); }
  Index first(Index j) const { return j * tile_; }
  Index width(Index j) const { return lower_[static_cast<std::size_t>(j)].box.shape[1]; }
  const Region& upper(Index j) const { return upper_[static_cast<std::size_t>(j)]; }
  const Region& lower(Index j) const { return lower_[static_cast<std::size_t>(j)]; }

 private:
  Index n_, tile_;
  std::vector<Region> upper_, lower_;
};

/// Whose rows L is in: those of the end, as LAPACK has it; or each panel's in the order of the moment it was made, so
/// that nothing written is permuted again, and solves exchange rows on the way.
enum class RowOrder : std::uint8_t { lapack, interleaved };

void check_lu(const char* who, const Operand& a);
/// Edge of the tiles of an LU factor of this order.
Index lu_tile(Index n);
/// Adds the tasks of P A = L U. `pivots`: n int64 in memory, LAPACK's but counted from 0. Bits depend on shape, dtype
/// and layout alone; the budget chooses how many columns of tiles are done together. A zero pivot stops nothing: U has
/// a zero on its diagonal. `factor` may be boxes of `a` itself, which it replaces. A run throws PivotError with the
/// place of a NaN or Inf. Cost: 2n³/3 flops (complex: four times); left-looking by slabs n x w, w ~ budget/(n s): reads
/// s (n³/(3w) + n²) bytes, writes s n²; RowOrder::lapack one more pass over L. Least memory: two columns of tiles.
void lu(Graph& graph, const char* who, const Operand& a, const LuColumns& factor, const Array& pivots, RowOrder rows);
/// X := A⁻¹ B with such a factor; X may be B itself. PivotError with the first zero on the diagonal of U.
/// Cost: 2 n² m flops (complex: four times); the factor is read once for every group of columns of X that fits, L's
/// diagonal tiles and what is below them twice. `diagonal`: where that of U is copied to as it passes.
void lu_solve(Graph& graph, const char* who, const LuColumns& factor, const Array& pivots, RowOrder rows,
              const Operand& b, const Array& x, const Array* diagonal = nullptr);
/// Both, with a factor that is kept in scratch alone.
void solve_general(Graph& graph, const Operand& a, const Operand& b, const Array& x, const Array* diagonal = nullptr);

}  // namespace flagstone::linalg
