#pragma once
// P A = L U with LAPACK's partial pivoting over whole columns, any size whose columns of tiles fit, and solves with it.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::linalg {

/// A factor as LU takes it: columns of tiles, each in two boxes, above its diagonal tile and from there down. Of an
/// m x n matrix the first min(m, n) columns have tiles on the diagonal; what is right of them is all above.
class LuColumns {
 public:
  /// Makes the array of one box, `part` of column j.
  using Make = std::function<Array(const char* part, Index j, const Shape& shape)>;
  /// Boxes of one array: L below the diagonal, U on and above it.
  LuColumns(const Array& whole, Index tile) : LuColumns(whole, whole, tile) {}
  /// What lies above the diagonal tiles is in `upper`, the rest in `lower`.
  LuColumns(const Array& lower, const Array& upper, Index tile);
  /// Each box of an n x n factor an array of its own.
  LuColumns(Index n, Index tile, const Make& make);
  /// The same, but each box from the diagonal down an array of its own.
  LuColumns apart(const Make& make) const;

  Index rows() const { return rows_; }
  Index order() const { return std::min(rows_, cols_); }
  Index tile() const { return tile_; }
  Index count() const { return static_cast<Index>(upper_.size()); }
  /// Columns of tiles that have a diagonal, the first ones.
  Index panels() const { return static_cast<Index>(lower_.size()); }
  Index first(Index j) const { return first_[static_cast<std::size_t>(j)]; }
  Index width(Index j) const { return upper_[static_cast<std::size_t>(j)].box.shape[1]; }
  /// Where the diagonal tile begins, or, without one, the rows end.
  Index split(Index j) const { return j < panels() ? first(j) : rows_; }
  const Region& upper(Index j) const { return upper_[static_cast<std::size_t>(j)]; }
  const Region& lower(Index j) const { return lower_[static_cast<std::size_t>(j)]; }

 private:
  void cut();

  Index rows_, cols_, tile_;
  std::vector<Index> first_;
  std::vector<Region> upper_, lower_;
};

/// Whose rows L is in: those of the end, as LAPACK has it; or each panel's in the order of the moment it was made, so
/// that nothing written is permuted again, and solves exchange rows on the way.
enum class RowOrder : std::uint8_t { lapack, interleaved };

struct LuOptions {
  RowOrder rows = RowOrder::lapack;
  /// With RowOrder::lapack, of a square matrix: where finished columns are noted; what a dead process finished is not
  /// computed again. L, whose rows are exchanged once more in the end, is in files beside it until then, so that a note
  /// speaks of nothing that changes.
  std::shared_ptr<Checkpoint> checkpoint;
  bool saved = false;  // moves what it would with a checkpoint: a plan has none
};

/// ShapeError unless A is a matrix, a square one where that is asked for, of a dtype that is factored.
void check_lu(const char* who, const Operand& a, bool square = true);
/// Edge of the tiles of an LU factor of this order.
Index lu_tile(Index n);
/// Adds the tasks of P A = L U, A of m x n. `pivots`: min(m, n) int64 in memory, LAPACK's but counted from 0. Bits
/// depend on shape, dtype and layout alone; the budget chooses how many columns of tiles are done together. A zero
/// pivot stops nothing: U has a zero on its diagonal. `factor` may be boxes of `a` itself, which it replaces, without a
/// checkpoint. A run throws PivotError with the place of a NaN or Inf. Cost: 2n³/3 flops (complex: four times);
/// left-looking by slabs n x w, w ~ budget/(n s): reads s (n³/(3w) + n²) bytes, writes s n²; RowOrder::lapack one more
/// pass over L. Least memory: two columns of tiles.
void lu(Graph& graph, const char* who, const Operand& a, const LuColumns& factor, const Array& pivots,
        const LuOptions& options);
struct LuSolveOptions {
  const Array* diagonal = nullptr;                   // where that of U is copied to as it passes
  std::shared_ptr<Checkpoint> checkpoint = nullptr;  // where groups of columns of X are noted; x is not b then
  bool given = false;                                // NaN and Inf of the factor are named, as it is first read
  Whose whose = Whose::matrix;                       // what it is, for errors
};

/// X := A⁻¹ B with such a factor; X may be B itself. PivotError with the first zero on the diagonal of U.
/// Cost: 2 n² m flops (complex: four times); the factor is read once for every group of columns of X that fits, L's
/// diagonal tiles and what is below them twice.
void lu_solve(Graph& graph, const char* who, const LuColumns& factor, const Array& pivots, RowOrder rows,
              const Operand& b, const Array& x, const LuSolveOptions& options = {});
/// Both, with a factor that is kept in scratch alone, or beside the checkpoint.
void solve_general(Graph& graph, const char* who, const Operand& a, const Operand& b, const Array& x,
                   const Array* diagonal = nullptr, const std::shared_ptr<Checkpoint>& checkpoint = nullptr);

}  // namespace flagstone::linalg
