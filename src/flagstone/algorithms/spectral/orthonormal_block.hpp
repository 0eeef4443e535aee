#pragma once
// The block that a Krylov method works on, tall and in memory, and how it becomes the next orthonormal block of a
// basis.
#include <string>

#include "flagstone/algorithms/spectral/panel_basis.hpp"

namespace flagstone::spectral {

/// F and X, n x block: F is what A made, X what A is applied to. Columns beyond a block's width are zero in X.
class TallBlock {
 public:
  TallBlock(Graph& graph, const PanelCut& cut, std::uint64_t seed, std::string who);

  /// For the operator: X, and F zeroed. Everything before is done, everything behind sees new handles.
  const Array& x() const { return x_; }
  const Array& zeroed();
  const Array& f() const { return f_; }
  const std::string& who() const { return who_; }
  /// F := random numbers, no two calls the same.
  void randomise();
  /// F[:, :columns] := what the caller gave.
  void take(const Array& given);
  /// X := slot of the basis.
  void load(const PanelBasis& v, Index slot);

  /// What the next random numbers follow from.
  void list_parts(StateParts& parts) { parts.value("draws", draws_); }

  struct Projection {
    SmallMatrix inside;   // Vᴴ F
    SmallMatrix outside;  // Gram matrix of what is left of F
  };
  /// F -= V_last (V_lastᴴ F) + V_q couplingᴴ, the columns that symmetry says A V_last has, V_q those before V_last;
  /// then F -= V (Vᴴ F) against everything: together "twice is enough", for two reads of V. `inside` is both.
  Projection project_locally(const PanelBasis& v, Index width, const SmallMatrix& coupling);
  /// F -= V (Vᴴ F): two reads of V.
  Projection project(const PanelBasis& v, Index width);

  struct Next {
    Index width = 0;
    SmallMatrix r;  // F = V_next R
  };
  /// The slot behind V := an orthonormal block of `wanted` columns, all orthogonal to V, that holds F's directions; X
  /// too. Directions below `noise` are dropped for random ones. `gram`: of F (n x width), which is orthogonal to V but
  /// for rounding. SVQB in rounds (Stathopoulos and Wu 2002): 6 n width² flops each.
  Next orthonormalise(const PanelBasis& v, Index width, const SmallMatrix& gram, Index wanted, double noise);

  /// ‖F - X diag(values)‖ of each column, columns of X normalised.
  std::vector<double> residuals(Index width, const std::vector<double>& values);
  /// X := columns [from, from + width) of a tall array in rows of panels.
  void load_columns(const Array& tall, Index from, Index width);

 private:
  /// F −= V C, of `width` columns; G += F* F.
  void subtract(const PanelBasis& v, Index width, const Array& c, const Array& g);
  SmallMatrix turn(const PanelBasis& v, Index width, const SmallMatrix& t);
  void refill(const PanelBasis& v, Index width, Index wanted);
  void to_x(PanelTask& task, const TilePart& from, Index width);

  Graph& graph_;
  PanelCut cut_;
  std::uint64_t seed_;
  std::string who_;
  std::uint32_t draws_ = 0;
  Array x_memory_, f_memory_, x_, f_;
};

}  // namespace flagstone::spectral
