#pragma once
// Rank-k updates: C := alpha A Aᴴ + beta C, and of rank 2k; C symmetric or Hermitian, half of the flops.
#include <complex>
#include <memory>
#include <optional>
#include <string>

#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::linalg {

/// What is stored of C.
enum class Half : std::uint8_t { both, lower, upper };

struct RankKNotes {
  std::string text;  // of a lazy A that is read several times, and of sums in groups; empty: nothing to say
  std::uint64_t scratch_bytes = 0;
};

struct RankKOptions {
  std::complex<double> alpha = 1.0, beta = 0.0;  // beta, and of rank k alpha: real where C is Hermitian
  bool hermitian = true;                         // A Aᴴ; else A Aᵀ. Of real ones the same
  Half half = Half::both;
  /// `c_out` holds C, whose lower triangle is updated and whose upper one is not touched; there is no c_in. Half::lower
  /// alone. Of rank 2k, and where C is complex and symmetric, tiles on the diagonal are summed up beside it.
  bool in_place = false;
  /// Elements (complex: their parts) end within [-most, most]: of correlations 1, which rounding may exceed. 0: any.
  double most = 0;
  /// Where progress is saved, superblock by superblock.
  std::shared_ptr<Checkpoint> checkpoint;
  std::shared_ptr<RankKNotes> notes;  // where somebody wants them
};

/// C is rows x rows of A's dtype: ShapeError says who does not conform. `b` (rank 2k) as A.
void check_rank_k(const Operand& a, const Operand* b, const Array* c, const RankKOptions& options);

/// Adds the tasks of C := alpha A Aᴴ + beta C_in, with `b` of C := alpha A Bᴴ + conj(alpha) B Aᴴ + beta C_in. Every
/// tile of one triangle is computed once; of a whole C its mirror is written as soon as it is complete, so both halves
/// have the same bits. Of `c_in` (null when beta is 0) the computed triangle is read. The arithmetic (tile edge, step,
/// groups of steps) depends on shapes, dtype and layouts only; the superblock on graph.budget() too. Few tiles of C and
/// a long inner dimension: steps are dealt out to groups, each a sum of its own, and the groups are summed up in a
/// binary tree, so that workers have something to do (rank_k_groups). Cost: n² k flops (rank 2k: twice; complex: four
/// times), n tiles more for whole tiles on the diagonal where C is complex and symmetric. Reads s n² k / c for
/// superblocks of c ~ √(budget / s) elements, √2 × the lower bound (Beaumont, Eyraud-Dubois, Langou, Vérité, arXiv
/// 2202.10217), writes s n², or half of it.
void rank_k(Graph& graph, const Operand& a, const Operand* b, const Array* c_in, const Array& c_out,
            const RankKOptions& options);

}  // namespace flagstone::linalg
