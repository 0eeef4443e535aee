#pragma once
// Block Krylov-Schur with thick restart (Stewart 2002; Zhou and Saad 2008): eigenpairs of a Hermitian operator, the
// basis on disk where it does not fit.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/algorithms/spectral/orthonormal_block.hpp"
#include "flagstone/algorithms/spectral/panel_basis.hpp"
#include "flagstone/algorithms/spectral/units.hpp"
#include "flagstone/algorithms/spectral/wanted.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::spectral {

struct SchurOptions {
  std::string who = "eigsh";  // in messages
  Index k = 0;                // wanted eigenpairs
  Index block = 0;            // columns of one application
  Index ncv = 0;              // columns of the basis before a restart
  Index keep = 0;             // Ritz vectors that a restart keeps; 0: k and half of the rest
  Which which = Which::largest_magnitude;
  double tol = 1e-6;
  std::uint64_t seed = 0;
  Dtype dtype = Dtype::float64;  // or complex128
  int most = 0;                  // applications; more: not converged
  int passes = 0;                // exactly so many applications, whatever was reached; 0: until tol
  bool verify = true;            // look for missed copies where the block is narrower than k, or given
  double symmetry = 1e-10;       // of |xᴴAy - yᴴAx| ÷ ‖A‖: more is an error
  std::optional<Array> start;    // n x (at most block) of dtype: the first block's first columns
  Stages* stages = nullptr;      // where progress is saved: the basis itself is the checkpoint
  std::string kept_in;           // the folder of files beside that
  bool hold_basis = false;       // in memory, charged; else in tiles that leave it where their room is needed
};

/// Widths as functions of n, k and dtype.
Index schur_block(Index k, Index n);
Index schur_ncv(Index k, Index block, Index n);
/// Applications until tol, as plans count them: block Krylov's model where the block holds k; else about 6.5 k vectors
/// at tol = 1e-4 (counted on bags of words: 5 to 7), in proportion to the digits. Looks for missed copies beside.
int schur_steps(const SchurOptions& options, Index n);
inline constexpr int look_steps = 5;

struct SchurPairs {
  std::vector<double> values, residuals;  // in the order of `which`; residuals as the recurrence knows them
  int applications = 0;
  bool converged = false, verified = false;
  int exponent = 0;  // values and residuals are those of G / 2^exponent: 0, unless G is AᵀA of an A out of range

  /// Multiply both by 2^power.
  void scale(int power);
};

/// ‖A v - λ v‖ must be at most this: tol max(|λ|, eps^⅔ ‖A‖), or what rounding allows.
double allowed_residual(double value, double norm, double tol);

class BlockKrylovSchur {
 public:
  BlockKrylovSchur(Graph& graph, const Operator& op, const SchurOptions& options);

  /// How tall columns are cut: the rows of panels are those of the vectors' chunks.
  static PanelCut cut_of(const SchurOptions& options, Index n);
  /// Until k pairs are known to tol, or there were `most` applications.
  SchurPairs solve();
  /// out (n x k, in rows of whole panels or in memory) := the vectors. The basis is gone afterwards.
  void vectors(const SchurPairs& pairs, const Array& out);
  /// residuals := ‖A v - λ v‖ of the pairs whose vectors are in `vectors`, measured: k / block more applications. They
  /// stay converged where all are as small as is allowed.
  void measure(SchurPairs& pairs, const Array& vectors);

 private:
  struct Ritz {
    std::vector<double> values, residuals;
    SmallMatrix vectors{Dtype::float64};
  };
  enum class Phase { solve, look };

  void list_parts(StateParts& parts);
  void begin();
  void go_on();
  std::string name_of_basis(int generation) const;
  Array new_array(bool anew);
  Array open_array(bool anew);
  void note_tiles(const Array& array);
  void remove_basis(int generation) const;
  void push(Index width);
  void save();
  void apply();
  void project();
  bool due() const;
  void rayleigh_ritz();
  bool done();
  void restart();
  void look();
  void rebuild(const SmallMatrix& y, Index locked, bool append_next);
  void advance();
  SchurPairs result() const;
  std::vector<double> known_values() const;
  Index active() const { return basis_.columns() - locked_; }
  Index limit() const;

  Graph& graph_;
  const Operator& op_;
  const SchurOptions o_;
  PanelCut cut_;
  Charge small_;
  std::optional<Stages> alone_;
  Stages& stages_;
  int generation_ = 0, saved_ = -1;       // of the basis: each restart writes another array; the one that was saved
  std::unique_ptr<FinishedTiles> tiles_;  // of it
  PanelBasis basis_;
  TallBlock block_;  // the block that is worked on: F, and X, what A is applied to
  Units units_;
  Phase phase_ = Phase::solve;
  Index locked_ = 0;
  std::vector<double> locked_values_, locked_residuals_;
  SmallMatrix h_, coupling_;  // VᴴAV of what is not locked; A V = V H + V_last coupling: of the columns before V_last
  Index width_ = 0, next_ = 0;  // columns of V_last; of the block that follows it, in the slot behind
  SmallMatrix r_;               // next_ x width_: A V_last = V H + V_next R
  Ritz ritz_;
  double norm_ = 0;  // of A, as far as it is known
  int applications_ = 0;
  bool verified_ = false;
};

}  // namespace flagstone::spectral
